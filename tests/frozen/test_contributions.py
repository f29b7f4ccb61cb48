"""Contributions from a frozen pass, against the head's own weights and the owner's own states."""

import pytest
import torch

from normxlogit import ALL
from normxlogit.copies.clone import clone
from normxlogit.copies.run import Site, run, tensor_of
from normxlogit.frozen import frozen_model
from normxlogit.frozen.backward import frozen_backward
from normxlogit.frozen.contributions import contributions
from normxlogit.frozen.forward import Recording
from normxlogit.frozen.frozen_model import FrozenModel
from normxlogit.frozen.places import Place, Reading, Side
from normxlogit.model.task_model import TaskModel
from normxlogit.tasks.targets import BatchTargets, resolve
from tests import tiny


def layers(*numbers):
    """The places of a text's layers."""
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


@pytest.mark.parametrize("family", ["bert", "albert", "xlnet", "gpt2", "llama"])
def test_contributions_are_gradient_times_the_owners_hidden_state(family):
    """With the gradient of a frozen network of the test's own, read by a hook on the layer."""
    task, batch = made(family, "SequenceClassification", TEXTS[1:2])
    places, count = layers(1, 2, 3), len(batch.encodings[0])
    frozen_pass = FrozenModel.of(task).run(batch, Reading(places))
    found = contributions(frozen_pass, resolve(task.task, frozen_pass, ALL), places)
    with torch.no_grad():
        states = task.caller_model(**batch.inputs, output_hidden_states=True).hidden_states
    copy = clone(task.module)
    for place, output in zip(places, task.parts.outputs, strict=True):
        vectors = task.embeddings(batch.inputs["input_ids"]).detach().requires_grad_()
        site = Site(output.path, output.call)
        with task.embeddings.replaced(vectors, batch.inputs["input_ids"]) as words, Recording():
            done = run(copy, batch.inputs, record=[site], replace=words)
        logits, held = done.output.logits, [tensor_of(done.recorded[site])]
        for label in range(logits.shape[1]):
            with frozen_backward(logits, [vectors]):
                (slope,) = torch.autograd.grad(logits[0, label], held[0], retain_graph=True)
            wanted = (slope * held[0]).permute(output.axes).sum(-1)[0, :count]
            torch.testing.assert_close(found.values[place][0, label], wanted.detach(), rtol=1e-4, atol=1e-5)
        if place.layer < 3:
            torch.testing.assert_close(held[0].permute(output.axes).detach(), states[place.layer], rtol=1e-4, atol=1e-4)


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
