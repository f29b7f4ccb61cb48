"""Citations and sources of real passes: against sums over tokens, and against the model with the sources cut out."""

import itertools

import numpy as np
import pytest

from normxlogit.grounding.citations import cited_answer as citing
from normxlogit.methods import method_named
from normxlogit.methods.perturbation import random_subsets
from normxlogit.pipeline.completions.completed_prompts import generate_each, read_completion
from normxlogit.pipeline.completions.leave_out import Ablations
from normxlogit.pipeline.completions.sources import explain_sources
from normxlogit.pipeline.options import Options
from normxlogit.results.units.spans import prompt_sources
from tests import tiny

CHAT = [{"role": "system", "content": "The film was bad."}, {"role": "user", "content": "The cat sat. Is this good?"}]


@pytest.fixture(scope="module")
def explainer():
    return tiny.writer(template=tiny.CHAT_TEMPLATE)


def test_the_template_is_grey_and_never_ranked(explainer):
    g = explainer.generate(CHAT, max_new_tokens=5)
    content = "".join(CHAT[0]["content"].split() + CHAT[1]["content"].split()).lower()
    shown = [t for t, special in zip(g.tokens[: g.prompt_tokens], g.special_tokens_mask, strict=False) if not special]
    assert "".join(shown) == content
    assert {t.text for t in g.top(30)} <= set(shown)
    assert g.sources("message").units.name[:-2] == ("system", "user")
    assert g.sources().units.text[:-2] == ("The film was bad.", "The cat sat.", "Is this good?")


def test_lime_and_context_cite_over_sources_are_two_estimators(explainer):
    """LIME weighs ablations by their distance and explains nats; ContextCite explains the log-odds, for each token."""
    from sklearn.linear_model import Lasso

    model = explainer.language_model
    (completed,) = generate_each(model, [CHAT], {"max_new_tokens": 4})
    measure = Ablations(model, completed, prompt_sources(completed.sequenced(), "sentence"))
    before = np.random.get_state()[1:]  # noqa: NPY002  # the caller's, which stays
    cited, lime = (
        explain_sources(model, completed, Options(method=method_named(f"{name}:samples=20,seed=3")), "sentence")
        for name in ("context-cite", "lime")
    )
    assert str(np.random.get_state()[1:]) == str(before)  # noqa: NPY002
    present = random_subsets(3, 20, 3)
    nats = measure(present).sum(1)
    scaled = (present - present.mean(0)) / present.std(0)
    odds = (nats - np.log1p(-np.exp(nats))) / 4
    expected = Lasso(alpha=0.01).fit(scaled, odds).coef_ / present.std(0) * 4
    np.testing.assert_allclose(cited.scores[0], expected, rtol=1e-3, atol=1e-4)
    present = method_named("lime:samples=20,seed=3").subsets(3)
    kernel = np.exp(-((1 - np.sqrt(present.mean(1))) ** 2) / 2)
    expected = Lasso(alpha=0.01).fit(present, measure(present).sum(1), sample_weight=kernel).coef_
    np.testing.assert_allclose(lime.scores[0], expected, rtol=1e-3, atol=1e-4)
    assert (cited.quantity, lime.quantity) == ("log odds", "log-probability")
    assert cited.diagnostics["forward_passes"] <= 8, "of three sources there are eight subsets"


def test_shapley_values_of_three_sources_are_those_of_all_orders(explainer):
    model = explainer.language_model
    (completed,) = generate_each(model, [CHAT], {"max_new_tokens": 5})
    found = explain_sources(model, completed, Options(method=method_named("kernel-shap")), "sentence", "token")
    measure = Ablations(model, completed, prompt_sources(completed.sequenced(), "sentence"))
    wanted = np.zeros((5, 3))
    for order in itertools.permutations(range(3)):
        there = np.zeros((1, 3), bool)
        for player in order:
            before = measure(there)[0]
            there[0, player] = True
            wanted[:, player] += (measure(there)[0] - before) / 6
    np.testing.assert_allclose(found.scores, wanted, atol=2e-3)
    assert (found.quantity, found.diagnostics["forward_passes"]) == ("log-probability", 8)


def test_the_marks_of_the_models_own_answer_are_no_words_of_it(monkeypatch):
    """As a model writes them that is told to cite."""
    explainer, written = tiny.writer(length=40), "The movie was great [1]. The keys are here."
    given = explainer.cite("Is it good?", ["The movie is good.", "The keys are here."], answer=written)
    monkeypatch.setattr(
        citing, "generate_each", lambda model, prompts, *_: [read_completion(model, prompts[0], f" {written}")]
    )
    own = explainer.cite("Is it good?", ["The movie is good.", "The keys are here."])
    assert own.answer.strip() == "The movie was great. The keys are here."
    assert own == given
