"""A row of a corpus is what the explainer gives of its text alone, whatever the model, the texts and the options."""

import numpy as np
import pytest

import normxlogit
from normxlogit import ALL, DataError, Explainer, Predictions, attribute
from tests import plain, tiny
from tests.corpora.corpora import texts

from .. import test_attention_sinks as sinks
from .. import test_modules_as_people_write_them as modules
from ..compare import close
from ..test_chat_template_strings import rendered, with_template
from ..test_defaults import Unknown

LONG = "the movie is good " * 20
SINKS = [
    sinks.TEXT,
    sinks.PLAIN,
    f"bad {sinks.SINK}",
    f"{sinks.PLAIN} and a cat {sinks.SINK} sat on the mat and was not",
]


def without_default(family, kind):
    """An explainer of a model with an operation that the default method does not know."""
    model = tiny.model(family, kind)
    parent, name = (
        (model.bert.encoder.layer[1].output, "dense") if family == "bert" else (model.model.layers[1].mlp, "down_proj")
    )
    setattr(parent, name, Unknown(getattr(parent, name)))
    return Explainer(model, tiny.tokenizer_for(family))


def with_sinks():
    tokenizer = tiny.tokenizer_for("llama")
    tokenizer.model_max_length = 12
    return Explainer(sinks.with_sink()[1], tokenizer)


def templated(family):
    explainer = Explainer(tiny.model(family, num_labels=3, pad_token_id=0), with_template())
    return explainer, [rendered(explainer, answer_follows=False), "a cat"], {}


MASKED = [tiny.MASKED, "a [MASK] film", "the movie was [MASK] !"]
PAIRS = [("is the movie good ?", text) for text in texts(5)]
CASES = {
    "a label": lambda: (tiny.explainer("bert", num_labels=3), texts(20), {}),
    "all labels and layers": lambda: (tiny.explainer("bert"), texts(20), {"target": ALL, "layers": ALL}),
    "a contrast": lambda: (
        tiny.explainer("bert", num_labels=3),
        texts(5),
        {"target": ["LABEL_1", "LABEL_0"], "contrast": 2},
    ),
    "some layers": lambda: (tiny.explainer("bert"), texts(5), {"layers": [2, 3]}),
    "windows": lambda: (tiny.explainer("bert"), [*texts(5), LONG], {"long_text": "window"}),
    "next words": lambda: (tiny.explainer("gpt2", "CausalLM"), texts(20), {}),
    "masks": lambda: (tiny.explainer("bert", "MaskedLM"), MASKED, {}),
    "tags": lambda: (tiny.explainer("bert", "TokenClassification"), texts(20), {}),
    "answers to questions": lambda: (tiny.explainer("bert", "QuestionAnswering"), PAIRS, {"pair_column": "pair"}),
    "attention sinks": lambda: (with_sinks(), SINKS, {"long_text": "window"}),
    "rendered messages": lambda: templated("llama"),
    "rendered messages with special tokens": lambda: templated("bert"),
    "another method than the default": lambda: (without_default("llama", "CausalLM"), texts(5), {}),
    "another method at all layers": lambda: (without_default("llama", "CausalLM"), texts(5), {"layers": ALL}),
    "another method of masks": lambda: (without_default("bert", "MaskedLM"), MASKED, {}),
    "probabilities of a module": lambda: (modules.explainer(plain.grown(modules.Softmax())), tiny.TEXTS, {}),
}
"""Explainer, texts and options."""


@pytest.mark.parametrize("name", CASES)
def test_a_row_is_what_the_text_alone_is(name, tmp_path):
    explainer, inputs, options = CASES[name]()
    if "pair_column" in options:
        rows = [{"text": first, "pair": second} for first, second in inputs]
    else:
        rows = [{"text": text} for text in inputs]
    attribute(explainer, rows, tmp_path, Predictions(words=True, **options), keep_text=True, shard_rows=8)
    found = [row for shard in sorted((tmp_path / "shards").iterdir()) for row in normxlogit.load(shard)]
    options.pop("pair_column", None)
    for row, text in zip(found, inputs, strict=True):
        alone = explainer(text, **options)
        for field in ("text", "text_pair", "units", "targets", "layers", "method", "settings", "sinks"):
            assert getattr(row, field) == getattr(alone, field), field
        assert row.notes == tuple(note for note in alone.notes if ", the default, does not work" not in note)
        assert [word.text for word in row.words()] == [word.text for word in alone.words()]
        assert (row.prediction.label, row.prediction.id) == (alone.prediction.label, alone.prediction.id)
        assert row.prediction.probability == pytest.approx(alone.prediction.probability, abs=1e-5)
        close(row.scores, alone.scores, 1e-4)
        for part in ("bias", "sink"):
            one, other = getattr(row, part), getattr(alone, part)
            assert (one is None) == (other is None)
            np.testing.assert_allclose(0 if one is None else one, 0 if other is None else other, rtol=1e-4, atol=2e-4)


def test_a_setting_of_a_module_makes_another_run(tmp_path):
    module, rows = plain.grown(modules.Softmax()), [{"text": text} for text in tiny.TEXTS]
    attribute(modules.explainer(module), rows, tmp_path)
    with pytest.raises(DataError):
        attribute(modules.explainer(module, outputs="logits"), rows, tmp_path)
