"""One model of each unusual shape, through a user's own calls: right, or refused with what would work.

Among them: word embeddings that are changed in place (CTRL, GIT), returned in a tuple (I-BERT) or not looked up in a
table (CANINE); layers that return lists (OpenAI GPT), two streams (Reformer), four (Gemma 3n), fewer states than tokens
(Funnel) or more (BigBird).
"""

from functools import partial

import numpy as np
import pytest
import torch

from normxlogit import ALL, Explainer
from normxlogit.errors import HeadMismatchError, UnsupportedModelError
from tests import tiny
from tests.abilities import needs
from tests.contract.compare import refused, total
from tools.survey.base import build, stir

TEXT = "the movie is never bad , but the plot was awful !"
TEXTS = [TEXT, "a great film"]
CLASSIFIER, WRITER = "sequence-classification", "causal-lm"

pytestmark = pytest.mark.filterwarnings("ignore")  # transformers' own


def explainer_for(task, family):
    model = build(task, family)
    stir(model, 4.0)
    return Explainer(model, tiny.tokenizer(specials=task != WRITER)), model


def ids_of(explainer, text):
    return torch.tensor([explainer.encode(text)[0].inputs["input_ids"]])


def logits_of(model, task, **inputs):
    """The caller's own model's logits: of the labels, or of the next token minus their mean."""
    logits = model(**inputs).logits[0]
    return logits[-1] - logits[-1].mean() if task == WRITER else logits


@pytest.mark.parametrize(("task", "family"), [
    (CLASSIFIER, "ctrl"), (WRITER, "git"), (CLASSIFIER, "ibert"), (WRITER, "openai-gpt"),
    pytest.param(WRITER, "gemma3n_text", marks=needs("Gemma 3n")),
    (WRITER, "cpmant"), (CLASSIFIER, "funnel"), ("token-classification", "canine"),
])  # fmt: skip
def test_the_frozen_gradient_adds_up_alone_and_in_a_batch(task, family):
    explainer, model = explainer_for(task, family)
    together = explainer(TEXTS, method="frozen-gradient")
    for text, result in zip(TEXTS, together, strict=True):
        with torch.no_grad():
            logits = logits_of(model, task, input_ids=ids_of(explainer, text))
        logits = logits if task != "token-classification" else logits[result.target.position]
        assert total(result) == pytest.approx(logits[result.target.id].item(), abs=1e-3)
        alone = explainer(text, method="frozen-gradient").scores
        np.testing.assert_allclose(result.scores, alone, atol=1e-3 * np.abs(alone).max())


def test_a_trunk_that_pools_tokens_has_no_states_for_the_head():
    explainer, _ = explainer_for(CLASSIFIER, "funnel")
    refused(HeadMismatchError, r"4 states for \d+ tokens", lambda: explainer(TEXT, method="normxlogit"))
    assert explainer(TEXT).method == "frozen-gradient"


def test_layers_that_the_frozen_network_cannot_be_read_at_are_refused():
    explainer, _ = explainer_for("token-classification", "canine")
    with pytest.raises(UnsupportedModelError, match="read_at=0 needs no layer, and normxlogit"):
        explainer(TEXT, method="frozen-gradient", layers=ALL)
    assert explainer(TEXT, method="frozen-gradient:read_at=0").bias is not None
    layered = explainer(TEXT, method="normxlogit", layers=ALL)
    np.testing.assert_allclose(layered.scores[-1], explainer(TEXT, method="normxlogit").scores, rtol=1e-3, atol=1e-4)
    for method in ("normxlogit:norm_of=word_embedding", "input-norm:norm_of=word_embedding"):
        refused(UnsupportedModelError, "norm_of=embedding_output", partial(explainer, TEXT, method=method))


def test_an_autograd_function_of_the_model_is_refused_by_name():
    explainer, _ = explainer_for(WRITER, "reformer")
    with pytest.raises(UnsupportedModelError, match="ReversibleFunctionBackward, an operation without a rule"):
        explainer(TEXT, method="frozen-gradient")
    assert explainer(TEXT).method == "normxlogit"


class Cancelling(torch.nn.Module):
    """A GELU of the sum over tokens of one number each."""

    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(tiny.SIZE, 4)
        self.act = torch.nn.GELU()
        self.head = torch.nn.Linear(4, 2)

    def forward(self, input_ids, attention_mask=None):
        return self.head(self.act(self.words(input_ids).sum(1)))


def test_an_activation_near_zero_is_not_taken_for_zero():
    model, tokenizer = Cancelling().eval(), tiny.tokenizer(specials=False)
    good, bad = tokenizer("good bad")["input_ids"]
    model.words.weight.data[good] = torch.tensor([1.0, 2.0, 0.5, 3.0])
    model.words.weight.data[bad] = -model.words.weight[good] + 2.0**-22  # the sum is far smaller than its parts
    explainer = Explainer(model, tokenizer, task="sequence-classification", labels=["no", "yes"])
    result = explainer("good bad", target="yes", method="frozen-gradient:read_at=0")
    expected = 0.5 * model.words.weight[[good, bad]] @ model.head.weight[1]  # GELU(x) / x is 0.5 at zero
    np.testing.assert_allclose(result.scores, expected.detach().numpy(), rtol=1e-3)
