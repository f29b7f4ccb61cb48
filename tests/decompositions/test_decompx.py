"""DecompX: its sum rules, and the loops written from the formulas."""

import numpy as np
import pytest
import torch

from normxlogit import ALL, Explainer
from normxlogit.errors import HeadMismatchError, UnsupportedModelError
from tests import tiny

from . import slow
from .test_matrix_methods import FAMILIES, both, close


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", ["SequenceClassification", "TokenClassification", "MaskedLM"])
def test_contributions_are_those_of_the_loops(family, kind):
    options = {} if kind == "MaskedLM" else {"num_labels": 3}
    model, explainer = both(family, kind, **options)
    words = ["good", "is", "mat"]
    target = words if kind == "MaskedLM" else [0, 1, 2]
    found = explainer(tiny.MASKED, method="decompx", target=target, layers=ALL)
    layers = slow.walk(model, list(found.token_ids))
    place = found.targets[0].position or 0

    def relative(logits):  # those of a vocabulary are explained minus their mean
        return logits - logits.mean(-1, keepdim=True) if kind == "MaskedLM" else logits

    for number, (layer, shares) in enumerate(zip(layers, slow.decompx_states(layers), strict=True)):
        expected = relative(slow.decompx_head(model, shares[place], layer.out[place]))  # (T, C)
        columns = [tiny.VOCABULARY[w] for w in words] if kind == "MaskedLM" else [0, 1, 2]
        close(found.scores[:, number], expected[:, columns].T)


@pytest.mark.parametrize("family", ["bert", "distilbert"])
def test_start_and_end_of_an_answer_are_each_read_at_their_own_place(family):
    _, explainer = both(family, "QuestionAnswering")
    ids = explainer.encode([tiny.PAIR])
    logits = explainer._model.run(explainer._model.batch(ids, [0])).logits[0]
    both_ends = explainer(tiny.PAIR, method="decompx", target=["start", "end"])
    np.testing.assert_allclose(both_ends.scores.sum(-1), logits.detach(), rtol=1e-4, atol=1e-4)
    for index, end in enumerate(("start", "end")):
        close(explainer(tiny.PAIR, method="decompx", target=end).scores, both_ends.scores[index], 1e-5)


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert"])
def test_multiple_choice_sums_to_the_choice_logit(family):
    model, explainer = both(family, "MultipleChoice")
    found = explainer(("the cat sat", ["on the mat", "here"]), method="decompx", target=1)
    tokens = explainer._model.tokenizer("the cat sat", "here", return_tensors="pt")
    with torch.no_grad():
        logit = model(**{name: value[None] for name, value in tokens.items()}).logits
    np.testing.assert_allclose(found.scores.sum(), logit.item(), rtol=1e-4, atol=1e-4)


def test_regression_takes_the_norm_of_the_shares_unless_asked_for_the_head():
    model, explainer = both("bert", num_labels=1)
    found = explainer(tiny.TEXTS[0], method="decompx")
    layers = slow.walk(model, list(found.token_ids))
    shares = slow.decompx_states(layers)[-1][0]
    close(found.scores, shares.norm(dim=-1))
    through_head = explainer(tiny.TEXTS[0], method="decompx:aggregate=head").scores
    close(through_head, slow.decompx_head(model, shares, layers[-1].out[0])[:, 0])
    norm = both("bert")[1](tiny.TEXTS[0], method="decompx:aggregate=norm", target=ALL).scores
    assert (norm[0] == norm[1]).all()


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")  # PEFT asks transformers the old way
def test_adapters_are_part_of_the_maps():
    peft = pytest.importorskip("peft")
    model = tiny.model("bert")
    settings = peft.LoraConfig(r=2, target_modules=["query", "value", "dense"], init_lora_weights=False)
    adapted = peft.get_peft_model(model, settings).eval()
    found = Explainer(adapted, tiny.tokenizer_for("bert"))(tiny.TEXTS[2], method="decompx", target=ALL)
    logits = tiny.logits_of(adapted, found.token_ids)
    np.testing.assert_allclose(found.scores.sum(-1), logits, rtol=1e-4, atol=1e-4)


class Doubling(torch.nn.Identity):
    def forward(self, x):
        return x * 2


def hooked(path, change):
    def apply(model):
        model.get_submodule(path).register_forward_hook(lambda _, __, output: change(output))

    return apply


def doubled(model):
    model.bert.encoder.layer[1].attention.output.dropout = Doubling()


LAYER = "bert.encoder.layer.1."
ATTENTION = hooked(LAYER + "attention.output.dense", torch.tanh)
FIRST = hooked(LAYER + "attention.output.LayerNorm", lambda states: states * 1.01)
SECOND = hooked(LAYER + "output.LayerNorm", lambda states: states * 1.01)
INNER = hooked(LAYER + "intermediate.dense", lambda states: states * 1.01)


@pytest.mark.parametrize(
    ("change", "part", "methods"),
    [
        (doubled, "attention", ["decompx", "globenc", "alti"]),
        (ATTENTION, "attention", ["decompx", "globenc", "alti"]),
        (FIRST, "first norm", ["decompx", "globenc", "alti"]),
        (SECOND, "second norm", ["decompx", "globenc", "alti"]),
        (INNER, "feed-forward part", ["decompx"]),
    ],
)
def test_layers_that_are_not_their_familys_are_refused(change, part, methods):
    """Also where the answer would hardly tell: each layer is proved by itself."""
    model = tiny.model("bert")
    change(model)
    explainer = Explainer(model, tiny.tokenizer_for("bert"))
    for method in methods:
        assert np.isfinite(explainer(tiny.TEXTS[2], method=method, layers=1).scores).all()  # below, all is as it was
        with pytest.raises(UnsupportedModelError, match=f"the {part} of layer 2 gives something else"):
            explainer(tiny.TEXTS[2], method=method, layers=[2, 3])


@pytest.mark.parametrize("path", ["classifier", "bert.pooler"])
@pytest.mark.parametrize("layers", [None, 1])
def test_a_head_that_is_not_its_familys_is_refused(path, layers):
    model = tiny.model("bert")
    hooked(path, lambda states: states + 0.001)(model)
    with pytest.raises(HeadMismatchError, match="not those of its family"):
        Explainer(model, tiny.tokenizer_for("bert"))(tiny.TEXTS[0], method="decompx", layers=layers)


def test_a_head_of_several_maps_is_refused():
    model = tiny.model("bert")
    model.classifier = torch.nn.Sequential(torch.nn.Linear(32, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    with pytest.raises(UnsupportedModelError, match="needs a linear map where the model has a Sequential"):
        Explainer(model, tiny.tokenizer_for("bert"))(tiny.TEXTS[0], method="decompx")
