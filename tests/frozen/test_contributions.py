import pytest
import torch

from normxlogit.frozen import frozen_model
from normxlogit.frozen.contributions import contributions
from normxlogit.frozen.frozen_model import FrozenModel
from normxlogit.frozen.places import Place, Reading, Side
from normxlogit.model.task_model import TaskModel
from normxlogit.tasks.targets import BatchTargets, resolve
from tests import tiny


def layers(*numbers):
    return tuple(Place(Side.TEXT, number) for number in numbers)


EMBEDDINGS, LAST = layers(0), layers(3)
TEXTS = ["the cat sat", "a movie is not good", "bad"]


def made(family, kind="SequenceClassification", texts=TEXTS, **options):
    task = TaskModel(tiny.model(family, kind, **options), tiny.tokenizer_for(family))
    batch = task.batch(task.encoder(texts), list(range(len(texts))))
    task.prepare(batch)
    return task, batch


def test_answers_at_many_places_are_read_one_by_one_or_in_sums():
    task, batch = made("llama", "CausalLM")
    read = torch.tensor([[0, 1, 2], [2, 4, -1], [0, -1, -1]])
    ids = torch.tensor([[7, 8, 9], [10, 11, 12], [13, 14, 15]])
    frozen = FrozenModel.of(task)
    weights = torch.tensor([[[1.0, 0, 2.0]], [[3.0, -1.0, 5.0]], [[2.0, 7.0, 7.0]]])  # (B, 1, G)
    for contrast in (None, 20):
        run = frozen.run(batch, Reading(LAST), predict=False)
        other = None if contrast is None else torch.full((3,), contrast)
        target = BatchTargets(ids, other, run.positions, True, task.task)
        found = contributions(run, target, LAST, read)
        summed = contributions(frozen.run(batch, Reading(LAST), predict=False), target, LAST, read, weights)
        for text, encoding in enumerate(batch.encodings):
            logits = tiny.logits_of(task.caller_model, encoding.ids)
            total = torch.zeros(found.values[LAST[0]].shape[-1])  # (T,)
            for g, place in enumerate(read[text].tolist()):
                if place < 0:
                    assert found.answer[text, g] == 0
                    assert not found.values[LAST[0]][text, g].any()
                    continue
                said = logits[place, ids[text, g]] - (logits[place].mean() if contrast is None else logits[place, 20])
                assert found.answer[text, g] == pytest.approx(said.item(), abs=1e-4)
                assert found.values[LAST[0]][text, g, place] == pytest.approx(said.item(), abs=1e-4)
                assert found.values[LAST[0]][text, g].count_nonzero() == 1
                total[place] += weights[text, 0, g] * said
            torch.testing.assert_close(summed.values[LAST[0]][text, 0], total, rtol=1e-4, atol=1e-4)
            assert summed.answer[text, 0] == pytest.approx(total.sum().item(), rel=1e-4, abs=1e-4)


def test_the_layers_of_a_long_pass_run_again_and_find_no_keys_and_values(monkeypatch):
    task, batch = made("llama", "CausalLM")
    frozen = FrozenModel.of(task)
    target = resolve(task.task, frozen.run(batch, Reading(EMBEDDINGS)), None)
    kept = contributions(frozen.run(batch, Reading(EMBEDDINGS)), target, EMBEDDINGS).values[EMBEDDINGS[0]]
    calls, kind = [], type(frozen.module.get_submodule(task.parts.outputs[-1].path))
    forward = kind.forward
    monkeypatch.setattr(kind, "forward", lambda self, *a, **k: calls.append(0) or forward(self, *a, **k))
    counts = []
    for longest in (batch.mask.numel(), batch.mask.numel() - 1):
        monkeypatch.setattr(frozen_model.FrozenModel, "tokens_kept", longest)
        frozen_pass, before = frozen.run(batch, Reading(EMBEDDINGS)), len(calls)
        again = contributions(frozen_pass, target, EMBEDDINGS).values[EMBEDDINGS[0]]
        torch.testing.assert_close(again, kept, rtol=1e-4, atol=1e-6)
        counts.append(len(calls) - before)
    assert counts == [0, len(task.parts.outputs)], "all was kept, or the layers ran again"
