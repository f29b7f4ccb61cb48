"""One text's part of a forward pass."""

import pytest
import torch

from normxlogit.models.task_model import TaskModel
from tests import tiny


@pytest.mark.parametrize("kind", ["SequenceClassification", "TokenClassification", "MaskedLM"])
def test_a_row_is_what_its_text_left(kind):
    task = TaskModel(tiny.model("bert", kind), tiny.tokenizer_for("bert"))
    texts = ["a [MASK] movie is not good", "the [MASK]", "was this [MASK] good ?"]
    batch = task.batch(task.encoder(texts), [0, 1, 2])
    for layers in (False, True):
        with torch.no_grad():
            run = task.run(batch, layers=layers)
        for index in range(3):
            row, part = run.row(index), slice(index, index + 1)
            assert row.batch.encodings == [batch.encodings[index]]
            assert torch.equal(row.batch.mask, batch.mask[part])
            assert torch.equal(row.batch.inputs["input_ids"], batch.inputs["input_ids"][part])
            for name in ("hidden", "embedded", "logits", "positions", "everywhere"):
                whole = getattr(run, name)
                assert getattr(row, name) is None if whole is None else torch.equal(getattr(row, name), whole[part])
            own = None if kind == "MaskedLM" else run.token_logits[batch.texts == index]
            assert row.token_logits is None if own is None else torch.equal(row.token_logits, own)
            assert (row.states is not None) is layers
            assert all(torch.equal(a, b[part]) for a, b in zip(row.states or (), run.states or (), strict=True))
    assert (run.positions is None) is (kind == "SequenceClassification")
    assert (run.everywhere is None) is (kind != "TokenClassification")
