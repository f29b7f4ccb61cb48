"""In a corpus: what is written is read back the same."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import normxlogit
from normxlogit import ALL, InputError, Predictions, attribute
from tests.corpora.corpora import errors

from ..cases import Case
from ..compare import close
from ..texts import texts


@pytest.mark.parametrize("case", [Case("bert", "SequenceClassification"), Case("gpt2", "CausalLM")], ids=str)
@given(rows=st.lists(texts, min_size=1, max_size=4), layers=st.sampled_from([None, ALL]))
def test_a_corpus_run_says_of_each_text_what_the_explainer_says(case, rows, layers):
    with tempfile.TemporaryDirectory() as folder:
        done = attribute(
            case.explainer, [{"text": row} for row in rows], folder, Predictions(layers=layers), keep_text=True
        )
        shards = sorted((Path(folder) / "shards").glob("*.parquet"))
        found = [result for shard in shards for result in normxlogit.load(shard)]
        wrong = errors(folder)
    assert done.rows == len(rows) == len(found) + len(wrong)
    good = [place for place in range(len(rows)) if place not in wrong]
    for place in wrong:
        with pytest.raises(InputError):
            case.explainer(rows[place])
    for place, result in zip(good, found, strict=True):
        own = case.explainer(rows[place], layers=layers)
        assert (result.text, result.tokens, result.offsets) == (own.text, own.tokens, own.offsets)
        assert (result.notes, result.layers, result.target.position) == (own.notes, own.layers, own.target.position)
        np.testing.assert_equal(result.special_tokens_mask, own.special_tokens_mask)
        if result.target.id == own.target.id:  # but for a tie
            close(result.scores, own.scores, 1e-4)
        assert result.prediction.value == pytest.approx(own.prediction.value, rel=1e-4, abs=1e-4)
