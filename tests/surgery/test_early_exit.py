"""Layers read by skipping the later ones, against models cut short and against their `hidden_states`."""

import copy
from typing import NamedTuple

import pytest
import torch
from torch import nn
from transformers.modeling_outputs import BaseModelOutput

from normxlogit import ALL, Explainer, UnsupportedModelError
from normxlogit.models.task_model import TaskModel
from normxlogit.surgery.early_exit import _skipped, exit_after, find_early_exit, handing_layers
from normxlogit.surgery.trace import Call, trace
from tests import tiny
from tests.architectures.base import build, stir

STACKS = {"reformer": "reformer.encoder.layers", "cpmant": "cpmant.encoder.layers", "xlstm": "backbone.blocks"}


@pytest.mark.parametrize("family", STACKS)
def test_a_layer_is_what_the_model_cut_short_there_says(family):
    model = build("causal-lm", family)
    stir(model, 2.0)
    explainer = Explainer(model, tiny.tokenizer(specials=False))
    found = explainer(tiny.TEXTS[0], method="logat", target=5, layers=ALL)
    assert explainer._model.parts.early_exit is not None
    ids = torch.tensor([found.token_ids])  # (1, T)
    for layer, scores in zip(found.layers, torch.tensor(found.scores), strict=True):
        short = copy.deepcopy(model)
        stack = short.get_submodule(STACKS[family])
        parent, _, name = STACKS[family].rpartition(".")
        setattr(short.get_submodule(parent), name, nn.ModuleList(list(stack)[:layer]))
        with torch.no_grad():
            logits = short(input_ids=ids, use_cache=False).logits[0, :, 5]  # (T,)
        torch.testing.assert_close(scores, logits, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("family", ["bert", "distilbert", "albert", "gpt2", "llama", "opt", "xlnet"])
def test_skipped_layers_give_the_states_where_these_can_be_read(family):
    plain = tiny.model(family)
    task = TaskModel(plain, tiny.tokenizer_for(family))
    batch = task.batch(task.encoder(tiny.TEXTS), list(range(len(tiny.TEXTS))))
    with torch.no_grad():
        run = task.run(batch, layers=True)
    calls, _ = trace(task.module, batch.inputs)
    trunk = next(call for call in calls if call.path == task.parts.trunk)
    with torch.inference_mode():
        early_exit = find_early_exit(task.copy.pool, trunk, calls, batch.inputs)
        assert task.parts.early_exit is None
        assert early_exit.count == task.layer_count()
        for layer in range(1, early_exit.count + 1):
            torch.testing.assert_close(
                exit_after(task.copy.pool, trunk.path, early_exit, batch.inputs, layer), task.final(run, layer)
            )


def test_layers_that_do_not_end_in_what_the_head_reads_are_refused(monkeypatch):
    monkeypatch.setattr("normxlogit.surgery.early_exit._skipped", lambda output, *_: output)
    explainer = Explainer(build("causal-lm", "cpmant"), tiny.tokenizer(specials=False))
    with pytest.raises(UnsupportedModelError, match="cannot be read one by one"):
        explainer(tiny.TEXTS[0], target=5, layers=ALL)


def test_what_makes_a_state_of_something_else_is_no_layer():
    state = torch.zeros(1, 4, 8)  # (B, T, H)
    calls = [
        Call("trunk.positions.0", None, state),  # it was given a number
        Call("trunk.layers.0", state, after := state + 1),
        Call("trunk.layers.1", after, state + 2),
        Call("trunk.layers.2", state, None),
    ]
    assert [call.path for call in handing_layers(calls)] == ["trunk.layers.0", "trunk.layers.1"]


def test_a_layer_inside_another_or_of_another_shape_is_none():
    state, ids = torch.zeros(1, 4, 8), torch.zeros(1, 4, 8, dtype=torch.long)
    calls = [
        Call("trunk.layers.0", state, after := state + 1),
        Call("trunk.layers.0.experts.0", state, inner := state + 3),
        Call("trunk.layers.0.experts.1", inner, after),
        Call("trunk.layers.1", after, last := state + 2),
        Call("trunk.norm", last, last),
        Call("trunk.down.0", last, short := state[:, :2]),
        Call("trunk.down.1", short, short[:, :1]),
        Call("trunk.flat.0", state[0], flat := state[0] + 1),
        Call("trunk.flat.1", flat, flat + 1),
        Call("trunk.ids.0", ids, more := ids + 1),
        Call("trunk.ids.1", more, more + 1),
        Call("trunk.cross.0", last, beside := state + 4),  # nobody is given what it returns as it is
        Call("trunk.cross.1", last, beside + 4),
    ]
    assert [call.path for call in handing_layers(calls)] == ["trunk.layers.0", "trunk.layers.1"]


class Streams(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor
    share: float


def test_a_skipped_layer_returns_what_it_was_given_in_its_own_form():
    a, b, new = torch.zeros(1, 4, 8), torch.ones(1, 4, 8), torch.full((1, 4, 8), 5.0)
    weights = torch.rand(1, 2, 4, 4)
    assert _skipped(new, (a, b), {}) is a
    assert _skipped(new, (), {"other": b, "hidden_states": a}) is a
    left = _skipped((new, weights, None), (a,), {"mask": weights})
    assert (left[0] is a, left[1] is weights, left[2]) == (True, True, None)
    assert type(_skipped([new], (a,), {})) is list
    two = _skipped((new, new + 1), (a, b), {})
    assert (two[0] is a, two[1] is b) == (True, True), "several streams, in their order"
    wide = torch.zeros(1, 4, 16)
    two = _skipped((new, wide + 1), (wide, a), {})
    assert (two[0] is a, two[1] is wide) == (True, True), "each by its shape"
    named = _skipped(Streams(new, new + 1, 0.5), (), {"second": b, "first": a})
    assert (type(named), named.first is a, named.second is b, named.share) == (Streams, True, True, 0.5)
    found = _skipped(BaseModelOutput(last_hidden_state=new, attentions=(weights,)), (a,), {})
    assert isinstance(found, BaseModelOutput)
    assert found.last_hidden_state is a
    assert found.attentions == (weights,)
    assert _skipped((new,), (a.double(),), {})[0] is new, "nothing of its kind was given"


def test_what_only_decides_is_no_layer():
    """The patcher of a byte model says where patches begin; its states never reach the head."""
    model = build("causal-lm", "blt")
    stir(model, 2.0)
    explainer = Explainer(model, tiny.tokenizer(specials=False))
    layers = explainer(tiny.TEXTS[0], layers=ALL).layers
    inner = model.model
    stacks = (inner.local_encoder, inner.global_transformer, inner.local_decoder)
    assert len(layers) == sum(len(stack.layers) for stack in stacks)
    assert len(inner.patcher.layers) > 0
