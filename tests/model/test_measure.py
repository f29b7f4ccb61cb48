"""What is measured of an answer, by the model's own logits."""

import pytest
import torch

from normxlogit.model.task_model import TaskModel
from normxlogit.tasks.targets import BatchTargets
from tests import tiny

IDS, CONTRAST = torch.tensor([[5, 6], [7, 1], [3, 2]]), torch.tensor([1, 0, 4])
TEXTS = torch.tensor([1, 0, 1, 2])  # which text each of four inputs belongs to


def refused(*_, **__):
    raise AssertionError("this way is not needed")


@pytest.mark.parametrize("contrasted", [False, True])
@pytest.mark.parametrize(
    ("family", "kind"), [("llama", "CausalLM"), ("bert", "MaskedLM"), ("bert", "TokenClassification")]
)
def test_the_quantity_of_each_input_is_read_at_its_position(family, kind, contrasted, monkeypatch):
    task, batch, _ = tiny.task_run(family, kind, [tiny.MASKED, "bad [MASK]", "a [MASK] is"])
    is_vocabulary = kind != "TokenClassification"
    ids, others = (IDS, CONTRAST) if is_vocabulary else (IDS % 2, CONTRAST % 2)
    inputs = {name: value[TEXTS] for name, value in batch.inputs.items()}
    positions = torch.tensor([1, 2, 0, 2])
    target = BatchTargets(ids, others if contrasted else None, None, True, task.task)
    # The logits of a vocabulary at every token would need memory; other heads answer by the model's own forward.
    monkeypatch.setattr(TaskModel, "answer" if is_vocabulary else "run_trunk", refused)
    with torch.no_grad():
        measured = task.measure(target, inputs, positions, TEXTS)
        logits = task.caller_model(**inputs).logits
    for row, text in enumerate(TEXTS.tolist()):
        at_position = logits[row, positions[row]]
        less = at_position[others[text]] if contrasted else at_position.mean() if is_vocabulary else 0.0
        expected = at_position[ids[text]] - less
        torch.testing.assert_close(measured[row], expected, atol=1e-4, rtol=1e-4)


def test_an_answer_about_a_whole_text_needs_no_position(monkeypatch):
    task, batch, run = tiny.task_run("bert")
    target = BatchTargets(torch.tensor([[1], [0], [1]]), None, None, True, task.task)
    monkeypatch.setattr(TaskModel, "run_trunk", refused)
    with torch.no_grad():
        measured = task.measure(target, batch.inputs, None, torch.arange(3))
    torch.testing.assert_close(measured[:, 0], run.logits[torch.arange(3), torch.tensor([1, 0, 1])])
