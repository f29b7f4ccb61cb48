import copy

import pytest
import torch
from torch import nn

from normxlogit import ALL, Explainer, UnsupportedModelError
from normxlogit.copies.trace import Call
from normxlogit.parts.layer_outputs import chained_layers
from tests import tiny
from tools.survey.base import build, stir

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


def test_layers_that_do_not_end_in_what_the_head_reads_are_refused(monkeypatch):
    monkeypatch.setattr("normxlogit.parts.early_exit._with_inputs_as_states", lambda output, *_: output)
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
    assert [call.path for call in chained_layers(calls)] == ["trunk.layers.0", "trunk.layers.1"]


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
