from dataclasses import replace

import pytest
import torch

from normxlogit import UnsupportedModelError
from tests import tiny


@pytest.mark.parametrize("kind", ["SequenceClassification", "TokenClassification", "MaskedLM"])
def test_a_row_of_a_pass_is_that_text_alone(kind):
    texts = [tiny.MASKED, "bad [MASK]", "the [MASK] is not good"]
    _, batch, run = tiny.task_run("bert", kind, texts, layers=True)
    for index in range(len(texts)):
        row = run.row(index)
        assert row.batch.encodings == batch.encodings[index : index + 1]
        assert torch.equal(row.batch.mask[0], batch.mask[index])
        for name in ("final", "embedding_output", "logits", "positions", "logits_by_position"):
            whole, of_text = getattr(run, name), getattr(row, name)
            assert (whole is None) is (of_text is None), name
            assert whole is None or torch.equal(of_text, whole[index : index + 1]), name
        for whole, of_text in zip(run.states, row.states, strict=True):
            assert torch.equal(of_text, whole[index : index + 1])
        expected = None if run.token_logits is None else run.token_logits[batch.texts == index]
        assert (expected is None) is (row.token_logits is None)
        assert expected is None or torch.equal(row.token_logits, expected)


def test_the_precision_of_a_pass_is_that_of_its_states():
    _, _, run = tiny.task_run("bert", texts=tiny.TEXTS[:1])
    error = UnsupportedModelError("no states")
    assert run.dtype == torch.float32
    half = replace(run, final=run.final.half())
    assert half.dtype == replace(half, embedding_output=error).dtype == torch.float16
    assert replace(half, final=error).dtype == torch.float32
    neither = replace(run, final=error, embedding_output=error)
    assert neither.dtype is None
    for name in ("hidden", "embedded"):
        with pytest.raises(UnsupportedModelError, match="no states"):
            getattr(neither, name)
