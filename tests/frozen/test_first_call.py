"""The first call: how many passes it has, and that whatever it is of, a wrong rule is found in it."""

import pytest
import torch

from normxlogit import ALL, Explainer, UnsupportedModelError
from normxlogit.frozen import frozen_model, rules
from tests import tiny

TEXT, METHOD = tiny.TEXTS[2], "frozen-gradient"


class Counted(torch.nn.Module):
    """A layer's step that counts the texts that it reads, and those of which a gradient arrives."""

    forwards, backwards = 0, 0

    def __init__(self, step):
        super().__init__()
        self.step = step

    def forward(self, x):
        Counted.forwards += len(x)
        y = self.step(x)
        if y.requires_grad:
            y.register_hook(self.count)
        return y

    @staticmethod
    def count(gradient):
        Counted.backwards += len(gradient)


@pytest.mark.parametrize(("family", "kind", "step", "method", "first"), [
    ("bert", "SequenceClassification", "bert.encoder.layer.2.output.dense", METHOD, 3),
    ("llama", "CausalLM", "model.layers.2.mlp.down_proj", METHOD, 3),
    ("bert", "SequenceClassification", "bert.encoder.layer.2.output.dense", "normxlogit", 4),
])  # fmt: skip
def test_it_has_four_passes(family, kind, step, method, first, monkeypatch):
    """A text alone and beside another, and the backward pass that explains the former."""
    monkeypatch.setattr(Counted, "forwards", 0)
    monkeypatch.setattr(Counted, "backwards", 0)
    model = tiny.model(family, kind)
    parent, _, name = step.rpartition(".")
    setattr(model.get_submodule(parent), name, Counted(model.get_submodule(step)))
    explainer = Explainer(model, tiny.tokenizer_for(family))
    for call in range(2):
        explainer(TEXT, method=method)
        backwards = 0 if method == "normxlogit" else call + 1
        assert (Counted.forwards, Counted.backwards) == (first + call, backwards)


CALLS = {
    "a label": lambda explainer: explainer(TEXT, target=0, method=METHOD),
    "all labels": lambda explainer: explainer(TEXT, target=ALL, method=METHOD),
    "several texts": lambda explainer: explainer(tiny.TEXTS, method=METHOD),
    "layers": lambda explainer: explainer(TEXT, method=METHOD, layers=[1, 2]),
    "a point": lambda explainer: explainer(TEXT, method=f"{METHOD}:point=0.5"),
}
WRITERS_CALLS = {
    "a token": lambda explainer: explainer(TEXT, method=METHOD),
    "a completion": lambda explainer: explainer.explain_completion(TEXT, " bad movie", method=METHOD),
    "its sum": lambda explainer: explainer.explain_completion(TEXT, " bad movie", method=METHOD, parts="all"),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("length", [None, 2], ids=["short", "long"])
def test_a_wrong_rule_is_found_in_every_call_of_a_classifier(call, length, monkeypatch):
    monkeypatch.setitem(rules.RULES, "Gelu", rules.RULES["Add"])
    if length:
        monkeypatch.setattr(frozen_model.FrozenModel, "tokens_kept", length)
    explainer = Explainer(tiny.model("bert"), tiny.tokenizer_for("bert"))
    for _ in range(2):
        with pytest.raises(UnsupportedModelError, match="do not add up to its answer"):
            call(explainer)


@pytest.mark.parametrize("call", WRITERS_CALLS.values(), ids=WRITERS_CALLS)
def test_a_wrong_rule_is_found_in_every_call_of_a_language_model(call, monkeypatch):
    explainer = Explainer(tiny.model("gpt2", "CausalLM"), tiny.tokenizer_for("gpt2"))
    monkeypatch.setitem(rules.RULES, "NativeLayerNorm", rules.RULES["Add"])
    with pytest.raises(UnsupportedModelError, match="do not add up to its answer"):
        call(explainer)


class Uneven(torch.nn.Module):
    """A head whose second label alone is computed by an error function."""

    def __init__(self, head):
        super().__init__()
        self.head = head

    def forward(self, x):
        first, second = self.head(x).unbind(-1)
        return torch.stack((first, torch.erf(second)), -1)


def test_the_labels_that_are_not_explained_are_proved_too(monkeypatch):
    model = tiny.model("bert")
    model.classifier = Uneven(model.classifier)
    monkeypatch.setitem(rules.RULES, "Erf", rules.RULES["Add"])
    with pytest.raises(UnsupportedModelError, match="do not add up to its answer"):
        Explainer(model, tiny.tokenizer_for("bert"))(TEXT, target=0, method=METHOD)


def test_the_head_of_a_language_model_is_proved(monkeypatch):
    """Gemma 2 caps its logits by a tanh."""
    monkeypatch.setitem(rules.RULES, "Tanh", rules.RULES["Add"])
    model = tiny.model("gemma2", "CausalLM", attn_logit_softcapping=None, final_logit_softcapping=0.1)
    with pytest.raises(UnsupportedModelError, match="do not add up to its answer"):
        Explainer(model, tiny.tokenizer_for("gemma2"))(TEXT, method=METHOD)


def test_an_answer_that_the_head_excludes_proves_nothing_and_is_proved_by_others(monkeypatch):
    model = tiny.model("bert")
    model.classifier.register_forward_hook(lambda _, __, logits: logits.masked_fill(torch.arange(2) == 0, -torch.inf))
    explainer = Explainer(model, tiny.tokenizer_for("bert"))
    assert explainer(TEXT, target=0, method=METHOD).bias == -torch.inf
    monkeypatch.setitem(rules.RULES, "Gelu", rules.RULES["Add"])
    with pytest.raises(UnsupportedModelError, match="do not add up to its answer"):
        Explainer(model, tiny.tokenizer_for("bert"))(TEXT, target=0, method=METHOD)
