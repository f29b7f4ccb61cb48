"""One text's part of a forward pass."""

import torch

from normxlogit.models.task_model import TaskModel
from tests import tiny


def test_a_row_is_what_its_text_left():
    task = TaskModel(tiny.model("bert"), tiny.tokenizer_for("bert"))
    batch = task.batch(task.encoder(tiny.TEXTS), list(range(len(tiny.TEXTS))))
    with torch.no_grad():
        run = task.run(batch, layers=True)
    for index in range(len(tiny.TEXTS)):
        row = run.row(index)
        assert row.batch.encodings == [batch.encodings[index]]
        torch.testing.assert_close(row.hidden[0], run.hidden[index])
        torch.testing.assert_close(row.logits[0], run.logits[index])
        torch.testing.assert_close(row.states[1][0], run.states[1][index])
        assert len(row.token_logits) == len(batch.encodings[index])
        torch.testing.assert_close(row.token_logits, run.token_logits[batch.texts == index])
