"""Abilities that older versions of transformers lack: tests of them are skipped there, each with its reason.

docs/testing.md lists them. What is there is asked of the ability, not of the version.
"""

import inspect

import pytest
import transformers
from transformers.pipelines import TextGenerationPipeline

try:  # since transformers 5.0, where a fast tokenizer has the name without an addition
    from transformers.models.bert.tokenization_bert_legacy import BertTokenizerLegacy as PythonBertTokenizer
except ImportError:
    from transformers.models.bert.tokenization_bert import BertTokenizer as PythonBertTokenizer

__all__ = ["LACKING", "PythonBertTokenizer", "needs"]

ABILITIES = {
    "pipelines that take tools=": "tools" in inspect.signature(TextGenerationPipeline.preprocess).parameters,
    "Gemma 3n": hasattr(transformers, "Gemma3nTextConfig"),
    "Gemma 4": hasattr(transformers, "Gemma4TextConfig"),
}
"""What some tests need, and whether the installed transformers has it."""

LACKING = [ability for ability, there in ABILITIES.items() if not there]


def needs(ability: str) -> pytest.MarkDecorator:
    """Return the mark of a test that needs an ability."""
    return pytest.mark.skipif(not ABILITIES[ability], reason=f"this version of transformers lacks {ability}")
