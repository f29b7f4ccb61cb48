"""Ctrl-C at any line of a call: the model, the tokenizer and the explainer go on as if it had not been."""

import pytest

from normxlogit import ALL, Explainer
from tests import tiny

from .compare import present, same
from .faults import AtLine, moments
from .untouched import nothing_left_behind

CALLS = [
    ("normxlogit", ALL),
    ("frozen-gradient", None),
    ("occlusion", None),
    *((method, None) for method in present("integrated-gradients:steps=2")),
]


def interrupt(family, kind, call, earlier=lambda explainer: None):
    """Press Ctrl-C at five lines of a call, each with a model and an explainer of its own."""
    tokenizer = tiny.tokenizer_for(family)

    def build():
        model = tiny.model(family, kind)
        explainer = Explainer(model, tokenizer)
        earlier(explainer)
        return model, explainer

    expected = call(build()[1])
    counted = build()[1]
    with AtLine() as lines:
        call(counted)
    for moment in moments(lines.seen, 5):
        model, explainer = build()
        with nothing_left_behind(model, tokenizer):
            with pytest.raises(KeyboardInterrupt), AtLine(moment):
                call(explainer)
            same(call(explainer), expected)


@pytest.mark.parametrize("used", [False, True], ids=["first call", "later call"])
@pytest.mark.parametrize(("method", "layers"), CALLS, ids=[method for method, _ in CALLS])
def test_an_interrupt_in_the_middle_of_a_batch(method, layers, used):
    def earlier(explainer):
        if used:
            explainer(tiny.TEXTS[:1], method=method, layers=layers)

    interrupt("bert", "SequenceClassification", lambda e: e(tiny.TEXTS, method=method, layers=layers), earlier)


def test_an_interrupt_in_the_middle_of_a_generation():
    interrupt("llama", "CausalLM", lambda explainer: [explainer.generate("the cat", max_new_tokens=3)])
