"""DecompX: its sum rules, and the loops written from the formulas."""

import numpy as np
import pytest

from normxlogit import ALL, Explainer
from normxlogit.errors import HeadMismatchError, UnsupportedModelError
from tests import tiny
from tests.adapters import adapted

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
    model, explainer = both(family, "QuestionAnswering")
    logits = model(**explainer.tokenizer(*tiny.PAIR, return_tensors="pt"))
    both_ends = explainer(tiny.PAIR, method="decompx", target=["start", "end"])
    for index, end in enumerate(("start", "end")):
        alone = explainer(tiny.PAIR, method="decompx", target=end)
        assert alone.scores.sum() == pytest.approx(logits[f"{end}_logits"][0, alone.target.position].item(), abs=1e-4)
        close(alone.scores, both_ends.scores[index], 1e-5)


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
    model = adapted("bert", target_modules=["query", "value", "dense"])
    found = Explainer(model, tiny.tokenizer_for("bert"))(tiny.TEXTS[2], method="decompx", target=ALL)
    logits = tiny.logits_of(model, found.token_ids)
    np.testing.assert_allclose(found.scores.sum(-1), logits, rtol=1e-4, atol=1e-4)


def hook(model, path, change):
    model.get_submodule(path).register_forward_hook(lambda _, __, output: change(output))


LAYER = "bert.encoder.layer.1."
CHANGED = {
    "attention.output.dropout": "attention",
    "attention.output.dense": "attention",
    "attention.output.LayerNorm": "first norm",
    "output.LayerNorm": "second norm",
    "intermediate.dense": "feed-forward part",
}


@pytest.mark.parametrize("path", CHANGED)
def test_layers_that_are_not_their_familys_are_refused(path):
    """Also where the answer would hardly tell: each layer is proved by itself."""
    model, explainer = both("bert")
    hook(model, LAYER + path, lambda states: states * 1.01)
    for method in ["decompx"] if path == "intermediate.dense" else ["decompx", "globenc", "alti"]:
        assert np.isfinite(explainer(tiny.TEXTS[2], method=method, layers=1).scores).all()  # below, all is as it was
        with pytest.raises(UnsupportedModelError, match=f"the {CHANGED[path]} of layer 2 gives something else"):
            explainer(tiny.TEXTS[2], method=method, layers=[2, 3])


@pytest.mark.parametrize("path", ["classifier", "bert.pooler"])
@pytest.mark.parametrize("layers", [None, 1])
def test_a_head_that_is_not_its_familys_is_refused(path, layers):
    model = tiny.model("bert")
    hook(model, path, lambda states: states + 0.001)
    with pytest.raises(HeadMismatchError, match="not those of its family"):
        Explainer(model, tiny.tokenizer_for("bert"))(tiny.TEXTS[0], method="decompx", layers=layers)
