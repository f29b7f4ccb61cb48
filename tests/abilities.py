"""Abilities that older versions of transformers lack: tests of them are skipped there, each with its reason.

docs/testing.md lists them. What is there is asked of the ability, not of the version.
"""

import inspect
from typing import Any

import pytest
import torch
import transformers
from transformers.models.paligemma import modeling_paligemma
from transformers.pipelines import AudioClassificationPipeline, TextGenerationPipeline

from tests import tiny

try:  # since transformers 5.0, where a fast tokenizer has the name without an addition
    from transformers.models.bert.tokenization_bert_legacy import BertTokenizerLegacy as PythonBertTokenizer
except ImportError:
    from transformers.models.bert.tokenization_bert import BertTokenizer as PythonBertTokenizer

__all__ = [
    "GREEDY_OR_OPEN",
    "KEEPS_FUNCTION",
    "LACKING",
    "TOLD_APART",
    "PythonBertTokenizer",
    "image_processor",
    "needs",
]


def image_processor(name: str, **settings: Any) -> Any:
    """Return an image processor that needs no torchvision; older versions have it without "Pil" in its name."""
    processor_class = getattr(transformers, f"{name}Pil", None) or getattr(transformers, name)
    return processor_class(**settings)


def _prefills_in_chunks() -> bool:
    """Return whether `generate` reads a prompt in chunks; up to 5.0 it refuses to, without a cache of the caller's."""
    model = tiny.model("gpt2", "CausalLM")
    try:
        model.generate(torch.tensor([[5, 6]]), max_new_tokens=1, prefill_chunk_size=1, pad_token_id=0)
    except ValueError:
        return False
    return True


def _counts_prompts() -> bool:
    """Return whether `generate` takes the `max_length` of a model's configuration for that of prompt and answer.

    In 5.0 it is that of the answer alone.
    """
    model = tiny.model("gpt2", "CausalLM")
    model.generation_config.max_length = 4
    return model.generate(torch.tensor([[5, 6]]), do_sample=False, pad_token_id=0).shape[1] <= 4


GREEDY_OR_OPEN = "configurations in which do_sample=False is not the same as nothing"
KEEPS_FUNCTION = "pipelines of sounds that keep the function that they were made with"
TOLD_APART = "a PaliGemma that is told which tokens are of the prompt"


def _returns_states_with_vectors() -> bool:
    """Return whether models with two towers return hidden states with their vectors; 4.57 returns vectors alone."""
    arguments = inspect.signature(transformers.CLIPModel.get_image_features).parameters.values()
    return any(argument.kind is argument.VAR_KEYWORD for argument in arguments)


def _keep_the_function_of_sounds() -> bool:
    """Return whether a pipeline of sounds keeps `function_to_apply`; that of 4.57 forgets it when it is called."""
    function = inspect.signature(AudioClassificationPipeline.postprocess).parameters["function_to_apply"]
    return function.default is None


ABILITIES = {
    "pipelines that take tools=": "tools" in inspect.signature(TextGenerationPipeline.preprocess).parameters,
    "pipelines that take tokenizer_encode_kwargs=": "tokenizer_encode_kwargs"
    in inspect.signature(TextGenerationPipeline._sanitize_parameters).parameters,
    "pipelines that sample by default": hasattr(TextGenerationPipeline, "_default_generation_config"),
    "prefilling in chunks": _prefills_in_chunks(),
    "lengths of the model's configuration that count the prompt": _counts_prompts(),
    "hidden states of two towers": _returns_states_with_vectors(),
    TOLD_APART: hasattr(modeling_paligemma, "create_causal_mask_mapping"),
    GREEDY_OR_OPEN: transformers.GenerationConfig().do_sample is None,
    KEEPS_FUNCTION: _keep_the_function_of_sounds(),
    "Gemma 3n": hasattr(transformers, "Gemma3nTextConfig"),
    "Gemma 4": hasattr(transformers, "Gemma4TextConfig"),
}
"""What some tests need, and whether the installed transformers has it."""

LACKING = [ability for ability, there in ABILITIES.items() if not there]


def needs(ability: str) -> pytest.MarkDecorator:
    """Return the mark of a test that needs an ability."""
    return pytest.mark.skipif(not ABILITIES[ability], reason=f"this version of transformers lacks {ability}")
