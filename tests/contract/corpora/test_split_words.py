"""In a corpus: words that the caller has split are read as their tokenizer reads them."""
# ruff: noqa: F811  # fixtures

import numpy as np
import pytest

import normxlogit
from tests import tiny

from ..test_split_words import (
    classifier,  # noqa: F401  # fixtures
)


def test_effects_in_a_corpus_are_those_of_whole_words(classifier, tmp_path):
    rows = [["a", "cat", "U.S."], ["U.S.", "bad"], ["the", "U.S.", "is", "great"]]
    job = normxlogit.Predictions(words=True, target=1)
    normxlogit.attribute(classifier, [{"tokens": row} for row in rows], tmp_path / "out", job, keep_text=True)
    summary = normxlogit.summarize(tmp_path / "out", verify=9, explainer=classifier, min_count=1)
    (unit,) = [unit for unit in (*summary.highest, *summary.against) if unit.text == "u.s."][:1]

    def logit(words):
        ids = classifier.tokenizer(words, is_split_into_words=True)["input_ids"]
        return float(tiny.logits_of(classifier.model, ids)[1])

    changes = [logit(row) - logit([word for word in row if word != "U.S."]) for row in rows]
    assert unit.effect.places == len(rows)
    assert unit.effect.mean == pytest.approx(np.mean(changes), abs=1e-4)
