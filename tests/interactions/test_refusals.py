"""Inputs whose answer is of several texts have no pairs of units."""

import pytest

pytest.importorskip("normxlogit.interactions", reason="the wing is not there")
pytest.importorskip("normxlogit.choices", reason="the wing that reads such inputs is not there")

from transformers import pipeline

from normxlogit import Explainer, UnsupportedModelError
from tests import tiny


def test_a_choice_between_texts_is_refused() -> None:
    with pytest.raises(UnsupportedModelError, match="one text"):
        tiny.explainer("bert", "MultipleChoice").pairs(("the movie", ["is good", "is bad"]))


def test_labels_of_a_zero_shot_pipeline_are_refused() -> None:
    names = {0: "entailment", 1: "neutral", 2: "contradiction"}
    classifier = tiny.model("bert", num_labels=3, id2label=names, label2id={name: i for i, name in names.items()})
    zero_shot = pipeline(
        "zero-shot-classification", model=classifier, tokenizer=tiny.tokenizer_for("bert"), candidate_labels=["a", "b"]
    )
    with pytest.raises(UnsupportedModelError, match="one text"):
        Explainer(zero_shot, labels=["good", "bad"]).pairs("the movie is not good")
