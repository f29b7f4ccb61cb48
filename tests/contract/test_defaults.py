"""Where no method is named and the default does not work on a language model, the next takes its place."""

import numpy as np
import pytest
import torch

from normxlogit import Explainer, UnsupportedModelError
from tests import tiny
from tests.contract.compare import refused

TEXTS = ["the movie is good", "bad", "once upon a time"]
TARGETS = ["bad", "good", "movie"]


class Unknown(torch.nn.Module):
    """A layer followed by an operation that cannot be frozen."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return torch.special.erfcx(self.layer(x))


@pytest.fixture(scope="module")
def explainer():
    model = tiny.model("llama", "CausalLM")
    model.model.layers[1].mlp.down_proj = Unknown(model.model.layers[1].mlp.down_proj)
    found = Explainer(model, tiny.tokenizer_for("llama"))
    refused(UnsupportedModelError, "cannot be frozen", lambda: found(TEXTS[0], method="frozen-gradient"))
    return found


def same(found, wanted):
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        assert (a.method, a.target) == ("normxlogit", b.target)
        np.testing.assert_array_equal(a.scores, b.scores)


@pytest.mark.parametrize("kind", [list, iter, lambda some: (one for one in some)])
def test_inputs_and_targets_are_read_again_for_the_next_method(explainer, kind):
    same(explainer(kind(TEXTS)), explainer(TEXTS, method="normxlogit"))
    wanted = explainer(TEXTS, targets=TARGETS, method="normxlogit")
    same(explainer(kind(TEXTS), targets=kind(TARGETS)), wanted)


def test_a_note_says_why(explainer):
    (note,) = explainer(TEXTS[0]).notes
    assert note.startswith("frozen-gradient, the default, does not work on this model: the model cannot be")
