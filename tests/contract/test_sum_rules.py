"""What scores sum to: logits for DecompX and the frozen network, one for ALTI, a difference for integrated gradients.

The logits are those of the caller's own model, run here on the tokens of the result.
"""

import numpy as np
import pytest
import torch

from normxlogit import ALL, Explainer
from tests import tiny

ENCODERS = ["bert", "roberta", "distilbert", "electra"]
TASKS = ["SequenceClassification", "TokenClassification", "MaskedLM"]
CLOSE = {"rtol": 1e-4, "atol": 1e-4}


def logits_of(model, result):
    """Run the caller's model on the tokens of a result: its logits (C,) where the target is read."""
    with torch.no_grad():
        logits = model(torch.tensor([result.token_ids])).logits[0]
    place = result.targets[0].position
    return logits.numpy() if logits.ndim == 1 else logits[0 if place is None else place].numpy()


def bias_of(result):
    """Return what of the logit comes from the biases of the model, and from attention sinks."""
    return np.array(result.bias) + (0 if result.sink is None else result.sink)


def build(family, kind="SequenceClassification", **options):
    model = tiny.model(family, kind, **options)
    return model, Explainer(model, tiny.tokenizer_for(family))


def explained(logits, kind):
    """What is explained of a text's logits, (C,): those of a vocabulary minus their mean."""
    return logits - logits.mean() if kind in ("MaskedLM", "CausalLM") else logits


@pytest.mark.parametrize("family", ENCODERS)
@pytest.mark.parametrize("kind", TASKS)
def test_decompx_sums_to_the_logits(family, kind):
    model, explainer = build(family, kind)
    result = explainer(tiny.MASKED, method="decompx", target=[0, 1], layers=ALL)
    logits = explained(logits_of(model, result), kind)
    np.testing.assert_allclose(result.scores[:, -1].sum(-1), logits[:2], **CLOSE)


@pytest.mark.parametrize("settings", ["", ":read_at=1", ":read_at=all", ":read_at=middle"])
@pytest.mark.parametrize(
    ("family", "kind"),
    [(family, "SequenceClassification") for family in ("bert", "modernbert", "gpt2", "llama", "deberta-v2", "xlnet")]
    + [("bert", "TokenClassification"), ("roberta", "MaskedLM"), ("llama", "CausalLM"), ("gpt2", "CausalLM")],
)
def test_the_frozen_network_and_its_bias_sum_to_the_logits(family, kind, settings):
    model, explainer = build(family, kind)
    result = explainer(tiny.MASKED, method=f"frozen-gradient{settings}", target=[0, 1])
    total, logits = result.scores.sum(-1) + bias_of(result), explained(logits_of(model, result), kind)
    np.testing.assert_allclose(total, logits[:2], **CLOSE)


@pytest.mark.parametrize("family", ["llama", "gpt2", "qwen2", "opt"])
@pytest.mark.parametrize("read_at", [0, "middle"])
def test_a_completion_sums_to_each_logit_less_the_mean_of_the_vocabulary(family, read_at):
    model, explainer = build(family, "CausalLM")
    result = explainer.explain_completion("the cat sat", " on the mat", method=f"frozen-gradient:read_at={read_at}")
    with torch.no_grad():
        logits = model(torch.tensor([result.token_ids])).logits[0]
    rows = [logits[target.position][target.id] - logits[target.position].mean() for target in result.targets]
    total = result.scores.sum(-1) + bias_of(result)
    np.testing.assert_allclose(total, rows, **CLOSE)


@pytest.mark.parametrize("family", ENCODERS)
@pytest.mark.parametrize(
    "method", ["alti", "attention-rollout", "value-zeroing", "alti:rollout=false", "value-zeroing:rollout=false"]
)
def test_rows_of_alti_and_other_mixtures_sum_to_one(family, method):
    _, explainer = build(family)
    for result in explainer(tiny.TEXTS, method=method, layers=ALL):
        np.testing.assert_allclose(result.scores.sum(-1), 1, atol=1e-5)
        assert (result.scores >= 0).all()


@pytest.mark.parametrize(("family", "kind"), [("bert", "SequenceClassification"), ("llama", "SequenceClassification"),
                                              ("gpt2", "CausalLM")])  # fmt: skip
def test_integrated_gradients_sum_to_the_difference_from_the_baseline(family, kind):
    model, explainer = build(family, kind)
    gaps = []
    for steps in (2, 50):
        result = explainer(tiny.TEXTS[2], target=1, method=f"integrated-gradients:steps={steps}")
        embeddings = torch.zeros(1, len(result.units), model.get_input_embeddings().weight.shape[1])
        with torch.no_grad():
            baseline = model(inputs_embeds=embeddings).logits[0]
        baseline = explained(baseline if baseline.ndim == 1 else baseline[-1], kind)
        gaps.append(result.scores.sum() - (explained(logits_of(model, result), kind)[1] - float(baseline[1])))
        assert result.diagnostics["convergence_error"] == pytest.approx(gaps[-1], abs=1e-4)
    assert abs(gaps[1]) <= max(abs(gaps[0]), 1e-3)
    assert abs(gaps[1]) < 0.05 * max(1.0, np.abs(result.scores).sum())
