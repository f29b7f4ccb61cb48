from dataclasses import replace

import numpy as np
import pytest
import torch

from normxlogit import NormXLogitError, UnsupportedModelError
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


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_are_not_finite_are_refused(value):
    model, _, run = tiny.task_run("bert")
    model.check_finite(np.array([[1.0, -np.inf]]), run.batch)  # an answer that is excluded
    with pytest.raises(NormXLogitError):
        model.check_finite(np.array([[1.0, value]]), run.batch)


def test_the_parts_of_a_changed_model_are_known_with_its_next_batch():
    explainer = tiny.explainer("bert")
    model, encodings = explainer._model, explainer.encode(tiny.TEXTS[:1])
    model.prepare(model.batch(encodings, [0]))
    earlier = model.copy
    model.caller_model.classifier.register_forward_hook(lambda *_: None)
    model.batch(encodings, [0])
    assert model.copy is not earlier
    assert model.copy.parts is not None
