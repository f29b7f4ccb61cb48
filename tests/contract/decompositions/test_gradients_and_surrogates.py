"""Gradients and linear models of perturbed texts: against autograd, sum rules, and the models that refuse them."""

import numpy as np
import pytest
import torch

from normxlogit import Explainer, UnsupportedModelError
from tests import tiny
from tests.contract import test_answers_against_others as answers
from tests.contract.compare import refused
from tests.contract.test_answers_against_others import CHOSEN, PROMPT, REJECTED
from tests.contract.test_architectures import TEXT as ARCHITECTURES_TEXT
from tests.contract.test_architectures import explainer_for
from tests.contract.test_sum_rules import TEXT, build, explained, logits_of, logits_of_result

pytestmark = pytest.mark.filterwarnings("ignore")  # transformers' own


@pytest.fixture(scope="module")
def model():
    return tiny.model("bert", num_labels=3)


@pytest.fixture(scope="module")
def explainer(model):
    return Explainer(model, tiny.tokenizer_for("bert"))


def test_gradients_are_those_of_autograd_on_the_callers_model(writer) -> None:
    prompt, table = answers.ids_of(writer, PROMPT), writer.model.get_input_embeddings()
    expected = np.zeros(len(prompt))
    for sign, answer in ((1, CHOSEN), (-1, REJECTED)):
        answer_ids = answers.ids_of(writer, answer)
        embedded = table(torch.tensor([prompt + answer_ids])).detach().requires_grad_()
        logits = writer.model(inputs_embeds=embedded).logits[0, len(prompt) - 1 : -1]
        value = sum(row.log_softmax(-1)[index] for row, index in zip(logits, answer_ids, strict=True))
        (slopes,) = torch.autograd.grad(value, embedded)
        expected += sign * (slopes * embedded).sum(-1)[0, : len(prompt)].detach().numpy()
    result = writer.explain_completion(PROMPT, CHOSEN, contrast=REJECTED, method="gradient-x-input")
    np.testing.assert_allclose(result.scores, expected, atol=1e-3)


@pytest.mark.parametrize("method", ["lime", "context-cite"])
def test_answers_that_hardly_vary_have_weights_too(method) -> None:
    model, tokenizer = tiny.model("bert", num_labels=3), tiny.tokenizer_for("bert")
    whole = Explainer(model, tokenizer)("the movie is not good", method=f"{method}:samples=400").scores
    model.classifier.weight.data.mul_(0.001)
    model.classifier.bias.data.zero_()
    scores = Explainer(model, tokenizer)("the movie is not good", target=0, method=f"{method}:samples=400").scores
    assert np.abs(scores).max() > 0
    assert np.abs(scores).max() < np.abs(whole).max()


def test_shapley_values_add_up_with_a_bias(explainer, model):
    a = explainer(TEXT, method="kernel-shap", target=1, contrast=0)
    logits = logits_of(model, TEXT)
    assert a.scores.sum() + a.bias == pytest.approx(logits[1] - logits[0], abs=1e-3)


def test_shapley_values_begin_at_the_answer_without_any_word(explainer, model):
    a = explainer("a great film", method="kernel-shap", target=1)
    assert float(a.bias) == pytest.approx(logits_of(model, "[MASK] [MASK] [MASK]")[1], abs=1e-3)


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
        gaps.append(result.scores.sum() - (explained(logits_of_result(model, result), kind)[1] - float(baseline[1])))
        assert result.diagnostics["convergence_error"] == pytest.approx(gaps[-1], abs=1e-4)
    assert abs(gaps[1]) <= max(abs(gaps[0]), 1e-3)
    assert abs(gaps[1]) < 0.05 * max(1.0, np.abs(result.scores).sum())


def test_gradients_that_a_model_lacks_are_refused_with_what_would_work():
    explainer, _ = explainer_for("token-classification", "canine")
    with pytest.raises(UnsupportedModelError, match="frozen-gradient and occlusion"):
        explainer(ARCHITECTURES_TEXT, method="gradient-norm")
    explainer, _ = explainer_for("masked-lm", "reformer")
    refused(UnsupportedModelError, "normxlogit", lambda: explainer("the movie is [MASK]", method="gradient-x-input"))
