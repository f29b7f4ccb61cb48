"""In a corpus: attention sinks."""

import numpy as np
import pytest

import normxlogit
from normxlogit import Explainer, Predictions, attribute
from tests import tiny

from ..test_attention_sinks import CLOSE, PLAIN, SINK, TEXT, with_sink


def test_a_corpus_row_is_what_the_text_alone_is(tmp_path):
    _, model = with_sink()
    tokenizer = tiny.tokenizer_for("llama")
    tokenizer.model_max_length = 12
    explainer = Explainer(model, tokenizer)
    texts = [TEXT, PLAIN, f"bad {SINK}", f"{PLAIN} and a cat {SINK} sat on the mat and this was not bad"]
    attribute(explainer, [{"text": text} for text in texts], tmp_path, Predictions(long_text="window"), keep_text=True)
    rows = normxlogit.load(next((tmp_path / "shards").glob("*.parquet")))
    for row, text in zip(rows, texts, strict=True):
        a = explainer(text, long_text="window")
        np.testing.assert_allclose(row.scores, a.scores, **CLOSE)
        np.testing.assert_allclose(row.bias, a.bias, **CLOSE)
        assert (row.sinks, row.notes) == (a.sinks, a.notes)
        assert (row.sink is None) == (a.sink is None)
        assert a.sink is None or float(row.sink) == pytest.approx(float(a.sink), abs=1e-4)
