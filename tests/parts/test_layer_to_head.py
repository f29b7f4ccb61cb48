import itertools

import pytest
import torch

from normxlogit.copies.module_io import Form, tensor_of
from normxlogit.model.task_model import TaskModel
from normxlogit.parts import layer_to_head
from normxlogit.recorded.outputs import read_outputs
from tests import tiny

STEPS = {
    "bert": None,  # post-norm: every layer's output is final
    "distilbert": None,
    "albert": None,  # one module called three times
    "xlnet": None,  # time first
    "llama": lambda m, x: m.model.norm(x),
    "gpt2": lambda m, x: m.transformer.ln_f(x),
    "gemma2": lambda m, x: m.model.norm(x),
    "opt": lambda m, x: m.model.decoder.final_layer_norm(x),
    "opt-projected": lambda m, x: m.model.decoder.project_out(m.model.decoder.final_layer_norm(x)),
}


@pytest.mark.parametrize("family", STEPS)
def test_a_layer_goes_the_way_of_the_last_one(family):
    options = {"word_embed_proj_dim": 16} if family == "opt-projected" else {}
    task, _, run = tiny.task_run(family.removesuffix("-projected"), layers=True, **options)
    plain = task.caller_model
    assert task.layer_count() == 3
    with torch.no_grad():
        torch.testing.assert_close(task.layer_as_final(run, 3), run.hidden)
        for layer in (1, 2):
            step = STEPS[family]
            expected = run.states[layer] if step is None else step(plain, run.states[layer])
            torch.testing.assert_close(task.layer_as_final(run, layer), expected)
    assert (task.parts.tail is None) == (STEPS[family] is None)


def test_a_way_that_does_not_end_in_what_the_head_read_is_not_taken(monkeypatch):
    assert tiny.task_run("llama")[0].parts.tail is not None
    monkeypatch.setattr("normxlogit.parts.layer_to_head.run_trunk", lambda *_, **__: torch.zeros(()))
    assert tiny.task_run("llama")[0].parts.tail is None


def test_a_state_is_turned_as_the_layers_hold_it(monkeypatch):
    monkeypatch.setattr(layer_to_head, "run_trunk", lambda pool, trunk, inputs, instead: instead["layer"]())
    state = torch.arange(24).view(2, 3, 4)  # (B, T, H)
    for axes in itertools.permutations(range(3)):
        tail = layer_to_head.Tail(("layer",), Form.of(state), axes)
        assert torch.equal(layer_to_head.bring_to_head(None, "", tail, state, {}).permute(axes), state)


def test_a_model_of_one_layer_begins_with_its_embeddings():
    """The norm in them gives the first state as often as there are layers, once; it is no layer all the same."""
    task, batch, run = tiny.task_run("bert", texts=tiny.TEXTS[2:], layers=True, num_hidden_layers=1)
    with torch.no_grad():
        own = task.caller_model(**batch.inputs, output_hidden_states=True).hidden_states
    assert task.layer_count() == 1
    torch.testing.assert_close(run.embedded, own[0])
    torch.testing.assert_close(run.states[1], own[1])


def test_states_that_begin_a_layer_late_are_set_right():
    """Mamba's hidden_states[0] is its first layer's output; the input norm is of the embedding all the same."""
    task, batch, run = tiny.task_run("mamba", "CausalLM", tiny.TEXTS[2:], layers=True)
    plain = task.caller_model
    with torch.no_grad():
        own = plain(**batch.inputs, output_hidden_states=True).hidden_states
        torch.testing.assert_close(run.embedded, plain.backbone.embeddings(batch.inputs["input_ids"]))
        assert task.layer_count() == 3
        torch.testing.assert_close(run.states[1], own[0])
        torch.testing.assert_close(task.layer_as_final(run, 1), plain.backbone.norm_f(own[0]))
        torch.testing.assert_close(task.layer_as_final(run, 3), own[-1])
        given = read_outputs(task, batch, plain(**batch.inputs, output_hidden_states=True), layers=True)
    torch.testing.assert_close(given.embedded, run.embedded)
    torch.testing.assert_close(task.layer_as_final(given, 1), task.layer_as_final(run, 1))


class Watch(torch.nn.Module):
    """Is shown a state, and returns nothing."""

    def forward(self, state):
        self.seen = state.shape


def test_a_module_that_reads_the_last_layers_input_and_returns_nothing_is_passed_over():
    plain = tiny.model("llama")
    before_last = plain.model.layers[-2]
    before_last.watch = Watch()
    before_last.register_forward_hook(lambda layer, _, output: layer.watch(tensor_of(output)))
    task = TaskModel(plain, tiny.tokenizer_for("llama"))
    batch = task.batch(task.encoder(tiny.TEXTS), [0, 1, 2])
    with torch.no_grad():
        run = task.run(batch, layers=True)
        torch.testing.assert_close(task.layer_as_final(run, 2), plain.model.norm(run.states[2]))
    assert task.parts.tail.layers == tuple(f"model.layers.{i}" for i in range(3))
