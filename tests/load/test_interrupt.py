"""Ctrl-C at any line of a call: the model, the tokenizer and the explainer go on as if it had not been."""

import pytest

from normxlogit import ALL, Explainer
from tests import tiny
from tests.load.faults import AtLine, moments, nothing_left_behind, same

CALLS = [
    ("normxlogit", ALL),
    ("frozen-gradient", None),
    ("occlusion", None),
    ("integrated-gradients:steps=2", None),
    ("decompx", None),
]


@pytest.mark.parametrize("used", [False, True], ids=["first call", "later call"])
@pytest.mark.parametrize(("method", "layers"), CALLS, ids=[method for method, _ in CALLS])
def test_an_interrupt_in_the_middle_of_a_batch(method, layers, used):
    tokenizer = tiny.tokenizer_for("bert")

    def explainer():
        found = Explainer(tiny.model("bert"), tokenizer)
        if used:
            found(tiny.TEXTS[:1], method=method, layers=layers)
        return found

    expected = explainer()(tiny.TEXTS, method=method, layers=layers)
    counted = explainer()
    with AtLine() as lines:
        counted(tiny.TEXTS, method=method, layers=layers)
    for moment in moments(lines.seen, 7):
        interrupted = explainer()
        with nothing_left_behind(interrupted.model.given, tokenizer):
            with pytest.raises(KeyboardInterrupt), AtLine(moment):
                interrupted(tiny.TEXTS, method=method, layers=layers)
            same(interrupted(tiny.TEXTS, method=method, layers=layers), expected)


def test_an_interrupt_while_a_model_writes():
    tokenizer = tiny.tokenizer_for("llama")
    expected = Explainer(tiny.model("llama", "CausalLM"), tokenizer).generate("the cat", max_new_tokens=3)
    counted = Explainer(tiny.model("llama", "CausalLM"), tokenizer)
    with AtLine() as lines:
        counted.generate("the cat", max_new_tokens=3)
    for moment in moments(lines.seen, 7):
        interrupted = Explainer(tiny.model("llama", "CausalLM"), tokenizer)
        with nothing_left_behind(interrupted.model.given, tokenizer):
            with pytest.raises(KeyboardInterrupt), AtLine(moment):
                interrupted.generate("the cat", max_new_tokens=3)
            same([interrupted.generate("the cat", max_new_tokens=3)], [expected])
