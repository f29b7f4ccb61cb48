"""What modules were given and returned, and how tensors hold each other."""

import pytest
import torch
from transformers.modeling_outputs import BaseModelOutput

from normxlogit.surgery.clone import clone
from normxlogit.surgery.trace import Form, axes_of, embedded_of, hidden_of, states_of, tensor_of, trace
from tests import tiny

STATE = torch.rand(2, 3, 4)


def test_every_call_in_its_order_and_no_hook_left():
    model = clone(tiny.model("albert"))
    calls, outputs = trace(model, {"input_ids": torch.tensor([[5, 6, 7]])})
    layers = [call for call in calls if call.path.endswith("albert_layers.0")]
    assert len(layers) == 3, "one module, called three times"
    assert [call.end for call in layers] == sorted(call.end for call in layers)
    assert calls[0].path == ""
    assert calls[0].end == len(calls) - 1
    assert calls[0].returned is outputs
    assert layers[1].main_input is tensor_of(layers[0].returned)
    with pytest.raises(Exception, match="index out of range"):
        trace(model, {"input_ids": torch.tensor([[99999]])})
    hooks = [h for m in model.modules() for h in (*m._forward_hooks.values(), *m._forward_pre_hooks.values())]
    assert all(hook.__module__.startswith("transformers") for hook in hooks)


@pytest.mark.parametrize(
    ("output", "found"),
    [(STATE, STATE), ((STATE, None), STATE), ([STATE], STATE), (BaseModelOutput(last_hidden_state=STATE), STATE),
     ((), None), (None, None), ((None, STATE), None)],
)  # fmt: skip
def test_the_main_tensor(output, found):
    assert tensor_of(output) is found
    assert hidden_of(output) is found


def test_hidden_states_have_three_axes():
    assert hidden_of(STATE[0]) is None


def test_states_and_the_embedding_output():
    decoder = {"decoder_hidden_states": (STATE, STATE), "encoder_hidden_states": (STATE + 1,)}
    assert states_of(decoder) == (STATE, STATE)
    assert embedded_of(decoder) is decoder["encoder_hidden_states"][0]
    assert states_of((STATE,)) is None
    assert embedded_of({"hidden_states": (STATE[0],)}) is None


def test_axes():
    assert axes_of(STATE, STATE) == (0, 1, 2)
    turned = STATE.transpose(0, 1).clone()
    assert axes_of(turned, STATE) == (1, 0, 2)
    longer = torch.cat((STATE, STATE), 1)
    assert axes_of(longer, STATE) == (0, 1, 2), "longer at the end"
    assert axes_of(longer.flip(1), STATE) is None
    assert axes_of(STATE.double(), STATE) is None
    assert axes_of(None, STATE) is None


def test_a_state_in_the_form_of_an_output():
    assert Form.of(STATE).holding(STATE) is STATE
    assert Form.of((1, 2, 3)).holding(STATE) == (STATE, None, None)
    assert Form.of([1]).holding(STATE) == [STATE]
    assert Form.of(BaseModelOutput()).holding(STATE).last_hidden_state is STATE
    assert Form.of((1, 2)).hand_back(None, STATE, other=1) == (STATE, None)
    assert Form.of(STATE).hand_back(None, other=1, hidden_states=STATE) is STATE
