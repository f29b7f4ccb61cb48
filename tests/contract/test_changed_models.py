"""A model that was changed in place after the first call is explained as it answers now."""

import logging
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from normxlogit import Explainer
from tests import plain, tiny

TEXT = "the movie is not good"


@dataclass
class Settings:
    gains: dict = field(default_factory=lambda: {"states": 1.0})


class Scaled(plain.Transformer):
    """A model whose forward reads its settings."""

    def __init__(self, settings, gain):
        super().__init__()
        self.settings, self.gain = settings, gain

    def states(self, input_ids, attention_mask=None, causal=None):
        return super().states(input_ids, attention_mask, causal) * self.gain(self.settings)


def set_gain(settings):
    settings["a"]["gain"] = 3.0


def set_third(settings):
    settings["a"]["b"]["c"]["gain"] = 3.0


def append(settings):
    settings["a"].append(3.0)


class Gain:
    """Not only settings: has a method of its own."""

    def __init__(self):
        self.value = 1.0

    def read(self):
        return self.value


def set_value(settings):
    settings.value = 3.0


def set_in_tuple(settings):
    settings[1]["gain"] = 3.0


def set_attribute(settings):
    settings.gain = 3.0


def set_inside(settings):
    settings.inner.gains["gain"] = 3.0


def set_field(settings):
    settings.gains["states"] = 3.0


CHANGES = {
    "dictionary in a dictionary": (lambda: {"a": {"gain": 1.0}}, lambda s: s["a"]["gain"], set_gain),
    "four deep": (lambda: {"a": {"b": {"c": {"gain": 1.0}}}}, lambda s: s["a"]["b"]["c"]["gain"], set_third),
    "list in a dictionary": (lambda: {"a": [1.0]}, lambda s: s["a"][-1], append),
    "dictionary in a tuple": (lambda: (0, {"gain": 1.0}), lambda s: s[1]["gain"], set_in_tuple),
    "object": (lambda: SimpleNamespace(gain=1.0), lambda s: s.gain, set_attribute),
    "inside an object": (
        lambda: SimpleNamespace(inner=SimpleNamespace(gains={"gain": 1.0})),
        lambda s: s.inner.gains["gain"],
        set_inside,
    ),
    "object with methods": (Gain, lambda s: s.read(), set_value),
    "dataclass": (Settings, lambda s: s.gains["states"], set_field),
}


@pytest.mark.parametrize("method", ["normxlogit", "frozen-gradient"])
@pytest.mark.parametrize("name", CHANGES)
def test_settings_that_are_changed_in_place(name, method):
    make, gain, change = CHANGES[name]
    settings = make()
    torch.manual_seed(0)
    model = plain.grown(Scaled(settings, gain))
    explainer = Explainer(model, tiny.tokenizer(), task="sequence-classification")
    before = explainer(TEXT, target=1, method=method)
    again = explainer(TEXT, target=1, method=method)
    np.testing.assert_array_equal(again.scores, before.scores)
    change(settings)
    after = explainer(TEXT, target=1, method=method)
    with torch.no_grad():
        inputs = tiny.tokenizer()(TEXT, return_tensors="pt")
        logits = model(inputs.input_ids, inputs.attention_mask)[0]
    assert after.prediction.value == pytest.approx(logits.max().item(), abs=1e-5)
    fresh = Explainer(model, tiny.tokenizer(), task="sequence-classification")(TEXT, target=1, method=method)
    np.testing.assert_allclose(after.scores, fresh.scores, rtol=1e-5, atol=1e-6)
    assert not np.allclose(after.scores, before.scores, rtol=1e-2)


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
