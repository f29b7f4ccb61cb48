"""A model that was changed in place between two calls is explained as it answers now."""

import logging
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from normxlogit import Explainer
from tests import plain, tiny
from tests.adapters import adapted, learn

TEXT = "the movie is not good"

pytestmark = pytest.mark.filterwarnings("ignore")  # of PEFT and torch


@dataclass
class Settings:
    gains: dict = field(default_factory=lambda: {"states": 1.0})


class Gain:
    """Not only settings: has a method of its own."""

    def __init__(self):
        self.value = 1.0

    def read(self):
        return self.value


class Scaled(plain.Transformer):
    """A model whose forward reads its settings."""

    def __init__(self, settings, gain):
        super().__init__()
        self.settings, self.gain = settings, gain

    def states(self, input_ids, attention_mask=None, causal=None):
        return super().states(input_ids, attention_mask, causal) * self.gain(self.settings)


SETTINGS = {
    "four deep": (lambda: {0: {0: {0: {0: 1.0}}}}, lambda s: s[0][0][0][0], lambda s: s[0][0][0].update({0: 3.0})),
    "list in a dictionary": (lambda: {"a": [1.0]}, lambda s: s["a"][-1], lambda s: s["a"].append(3.0)),
    "object with methods": (Gain, lambda s: s.read(), lambda s: setattr(s, "value", 3.0)),
    "dataclass": (Settings, lambda s: s.gains["states"], lambda s: s.gains.update(states=3.0)),
}
"""How settings are made, read in the forward pass, and changed."""


def scaled(name):
    """A model whose settings are changed in place, and the change."""
    make, gain, change = SETTINGS[name]
    return lambda: plain.grown(Scaled(make(), gain)), lambda model: change(model.settings)


def bert(change=lambda model: None):
    model = tiny.model("bert")
    change(model)
    return model


def own_adapter():
    peft = pytest.importorskip("peft")
    return learn(bert(lambda model: model.add_adapter(peft.LoraConfig(r=4, target_modules=["query", "value"]))))


def dense(model):
    return model.bert.encoder.layer[0].output.dense.weight


def hook(model):
    model.bert.encoder.layer[1].output.register_forward_hook(lambda _, __, output: output * 1.5)


def head_replaced(model):
    torch.manual_seed(9)
    model.classifier = nn.Linear(32, 2)


def assigned(model):
    torch.manual_seed(9)
    model.load_state_dict({k: v + 0.1 * torch.randn_like(v) for k, v in model.state_dict().items()}, assign=True)


def number_changed(model):
    for layer in model.bert.encoder.layer:
        layer.output.LayerNorm.eps = 0.5


def forward_replaced(model):
    own = type(model.bert.embeddings).forward
    model.bert.embeddings.forward = lambda *a, **k: own(model.bert.embeddings, *a, **k) * 2


def class_replaced(model):
    own = type(model.bert.embeddings)
    doubled = {"forward": lambda self, *a, **k: own.forward(self, *a, **k) * 2}
    model.bert.embeddings.__class__ = type("Doubled", (own,), doubled)


def in_place(model):
    with torch.no_grad():
        dense(model).mul_(2)


def in_data(model):
    dense(model).data = dense(model).data * 2


CHANGES = {
    **{name: scaled(name) for name in SETTINGS},
    "another adapter": (lambda: adapted("bert", "second"), lambda model: model.set_adapter("second")),
    "no adapter": (adapted, lambda model: model.base_model.disable_adapter_layers()),
    "transformers' own adapter": (own_adapter, lambda model: model.disable_adapters()),
    "a hook": (bert, hook),
    "a hook less": (lambda: bert(hook), lambda model: model.bert.encoder.layer[1].output._forward_hooks.clear()),
    "another head": (bert, head_replaced),
    "another bias": (bert, lambda m: setattr(m.classifier, "bias", nn.Parameter(m.classifier.bias + 1))),
    "other tensors": (bert, assigned),
    "a number of a module": (bert, number_changed),
    "another forward": (bert, forward_replaced),
    "another class": (bert, class_replaced),
    "weights in place": (bert, in_place),
    "weights by their data": (bert, in_data),
}
"""How a model is made, and what changes it."""


def explainer_of(model):
    return Explainer(model, tiny.tokenizer(), task="sequence-classification")


@pytest.mark.parametrize("method", ["normxlogit", "frozen-gradient"])
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_between_two_calls_is_followed(name, method):
    build, change = CHANGES[name]
    model, options = build(), {"target": 1, "method": method}
    explainer = explainer_of(model)
    before = explainer(TEXT, **options).scores
    np.testing.assert_allclose(explainer(TEXT, **options).scores, before, rtol=1e-6, atol=1e-7)
    change(model)
    after = explainer(TEXT, **options)
    with torch.no_grad():
        output = model(**tiny.tokenizer()(TEXT, return_tensors="pt"))
    logits = output if isinstance(output, torch.Tensor) else output.logits
    assert after.prediction.value == pytest.approx(logits.max().item(), abs=1e-5)
    np.testing.assert_allclose(after.scores, explainer_of(model)(TEXT, **options).scores, rtol=1e-5, atol=1e-6)
    same = (name, method) == ("another bias", "frozen-gradient")  # whose scores are without it
    assert (np.abs(after.scores - before).max() < 1e-3) == same


def test_merging_and_switching_back_leave_the_scores():
    wrapped = adapted()
    explainer = explainer_of(wrapped)
    on = explainer(TEXT).scores
    with wrapped.disable_adapter():
        off = explainer(TEXT).scores
    np.testing.assert_allclose(explainer(TEXT).scores, on, rtol=1e-5, atol=1e-6)
    assert np.abs(on - off).max() > 1e-3
    for change in (wrapped.merge_adapter, wrapped.unmerge_adapter):
        change()
        np.testing.assert_allclose(explainer(TEXT).scores, on, rtol=1e-3, atol=1e-3)


def test_what_is_read_before_the_first_batch_is_of_the_model_as_it_is_now():
    model, tokenizer = tiny.model("bert"), tiny.tokenizer_for("bert")
    explainer = Explainer(model, tokenizer)
    text = f"{TEXT} " * 4
    assert explainer(text).target.name.startswith("LABEL")
    model.config.id2label = {0: "no", 1: "yes"}
    assert explainer(text, target="yes", contrast="no").target.name == "yes"
    tokenizer.model_max_length = 10
    assert len(explainer(text).units) == len(explainer.encode(text)[0]) == 10
    tokenizer.model_max_length = 20
    assert len(explainer(text).units) == 20, "the tokenizer's limit is read anew, larger ones too"
    model.resize_token_embeddings(80)
    assert explainer({"input_ids": [[2, 79, 3]]})[0].token_ids == (2, 79, 3)


def test_generation_settings_that_are_changed_in_place():
    model = tiny.model("llama", "CausalLM")
    explainer = Explainer(model, tiny.tokenizer_for("llama"))
    first = explainer.generate("the cat", max_new_tokens=4)
    written = first.token_ids[first.prompt_tokens :]
    model.generation_config.eos_token_id = written[1]
    stopped = explainer.generate("the cat", max_new_tokens=4)
    assert stopped.token_ids[stopped.prompt_tokens :] == written[: written.index(written[1]) + 1]


def test_a_model_that_is_left_alone_is_taken_apart_once():
    model, passes = tiny.model("bert"), []
    model.notes = {"a": [{"b": SimpleNamespace(c=1), "log": logging.getLogger("a")}], "model": model}
    model.notes["itself"] = model.notes
    explainer = Explainer(model, tiny.tokenizer_for("bert"))
    explainer(TEXT)
    model.bert.encoder.layer[0].register_forward_hook(lambda *_: passes.append(1))
    explainer(TEXT)
    passes.clear()
    explainer(TEXT)
    assert len(passes) == 1
