"""Citations and sources of real passes: against sums over tokens, and against the model with the sources cut out."""

import itertools

import numpy as np
import pytest

from normxlogit import Explainer, InputError, MethodError
from normxlogit.grounding.citations import cite as cite_module
from normxlogit.methods import method_named
from normxlogit.methods.perturbation import random_subsets
from normxlogit.pipeline.completions.ablations import Ablations, leave_one_out, score_sources
from normxlogit.pipeline.completions.completed_prompts import generate
from normxlogit.pipeline.completions.sources import explain_sources
from normxlogit.pipeline.options import Options
from normxlogit.results.units.spans import prompt_sources
from tests import tiny

CHAT = [{"role": "system", "content": "The film was bad."}, {"role": "user", "content": "The cat sat. Is this good?"}]


def made(chat=True):
    tokenizer = tiny.tokenizer_for("llama")
    tokenizer.model_max_length = 200
    if chat:
        tokenizer.chat_template = tiny.CHAT_TEMPLATE
    return tiny.model("llama", "CausalLM"), tokenizer


def explainer_for(chat=True):
    return Explainer(*made(chat))


def log_probabilities(model, ids, count):
    logits = tiny.logits_of(model, ids).log_softmax(-1)
    return [float(logits[place - 1, ids[place]]) for place in range(len(ids) - count, len(ids))]


def test_the_template_is_grey_and_never_ranked():
    g = explainer_for().generate(CHAT, max_new_tokens=5)
    content = "".join(CHAT[0]["content"].split() + CHAT[1]["content"].split()).lower()
    shown = [t for t, special in zip(g.tokens[: g.prompt_tokens], g.special_tokens_mask, strict=False) if not special]
    assert "".join(shown) == content
    assert {t.text for t in g.top(30)} <= set(shown)
    assert g.sources("message").units.name[:-2] == ("system", "user")
    assert g.sources().units.text[:-2] == ("The film was bad.", "The cat sat.", "Is this good?")


def test_leave_one_out_takes_the_tokens_of_a_source_out():
    model, tokenizer = made()
    explainer = Explainer(model, tokenizer)
    found = explain_sources(
        explainer.language_model,
        (completed := generate(explainer.language_model, CHAT, 5, {})),
        Options(method=method_named("occlusion")),
        "sentence",
        "token",
    )
    ids = completed.encoding.ids
    whole = log_probabilities(model, ids, 5)
    for i, source in enumerate(prompt_sources(completed.sequenced(), "sentence")):
        without = log_probabilities(model, [t for place, t in enumerate(ids) if place not in source.tokens], 5)
        np.testing.assert_allclose(found.scores[:, i], np.subtract(whole, without), atol=1e-4)
    assert found.quantity == "log-probability"
    assert found.diagnostics["forward_passes"] == 4
    with pytest.raises(MethodError, match="window must be 1"):
        explain_sources(
            explainer.language_model, completed, Options(method=method_named("occlusion:window=2")), "sentence"
        )


class Linear:
    """An answer of three tokens that is linear in which sources are there."""

    sources = (None,) * 4
    weights = np.array([2.0, 0.0, -1.0, 0.5])

    def __call__(self, kept):
        return np.stack([kept @ self.weights / 3 - 10] * 3, 1)


def test_context_cite_finds_a_linear_answer_and_leave_one_out_too():
    parts = np.array([[1.0, 1.0, 1.0], [1.0, 0.0, 0.0]])

    def fitted(settings):
        return score_sources(method_named(f"context-cite:samples=64,{settings}"), Linear(), parts, None).table

    np.testing.assert_allclose(fitted("alpha=1e-6"), [Linear.weights, Linear.weights / 3], atol=1e-2)
    np.testing.assert_allclose(leave_one_out(Linear(), parts), [Linear.weights, Linear.weights / 3], atol=1e-12)
    sparse = fitted("alpha=0.05")
    assert sparse[0, 1] == 0
    assert 0 < sparse[0, 0] < 2
    assert random_subsets(4, 2000, 0).mean() == pytest.approx(0.5, abs=0.03)
    assert (random_subsets(4, 9, 1) != random_subsets(4, 9, 2)).any()


def test_lime_and_context_cite_over_sources_are_two_estimators():
    """LIME weighs ablations by their distance and explains nats; ContextCite explains the log-odds, for each token."""
    from sklearn.linear_model import Lasso

    explainer = explainer_for()
    model = explainer.language_model
    completed = generate(model, CHAT, 4, {})
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


def test_named_sources_of_texts_and_messages():
    explainer = explainer_for()
    g = explainer.explain_completion("The cat sat. The movie is bad.", " a cat", sources={"film": (13, 30)})
    assert g.units.name[:-2] == ("film",)
    assert g.text[slice(*g.units.spans[0])] == "The movie is bad."
    g = explainer.explain_completion(CHAT, " a cat", sources={"cat": (1, 4, 7), "film": (0, 0, 17)})
    assert [g.text[a:b] for a, b in g.units.spans[:-2]] == ["cat", "The film was bad."]
    for prompt, span, message in (
        (CHAT, (0, 3), r"\(message, start, end\)"),
        ("the cat", (0, 0, 3), r"\(start, end\)"),
        (CHAT, (2, 0, 3), "not a span of message 2"),
        (CHAT, (1, 4, 99), "not a span of message 1"),
        ("the cat", (4, 99), "not a span of the prompt"),
    ):
        with pytest.raises(InputError, match=message):
            explainer.explain_completion(prompt, " a cat", sources={"x": span})


def ablated(method, sources="sentence", parts=None):
    model = explainer_for().language_model
    completed = generate(model, CHAT, 5, {})
    return model, completed, explain_sources(model, completed, Options(method=method_named(method)), sources, parts)


def test_shapley_values_of_three_sources_are_those_of_all_orders():
    model, completed, found = ablated("kernel-shap", parts="token")
    sources = prompt_sources(completed.sequenced(), "sentence")
    measure = Ablations(model, completed, sources)
    wanted = np.zeros((5, 3))
    for order in itertools.permutations(range(3)):
        there = np.zeros((1, 3), bool)
        for player in order:
            before = measure(there)[0]
            there[0, player] = True
            wanted[:, player] += (measure(there)[0] - before) / 6
    np.testing.assert_allclose(found.scores, wanted, atol=2e-3)
    assert (found.quantity, found.diagnostics["forward_passes"]) == ("log-probability", 8)


def test_guided_lime_over_sources_starts_from_its_prior_and_ends_in_the_measurements():
    far = "guided-lime:prior=frozen-gradient,samples=8,alpha="
    prior = ablated("frozen-gradient")[2].scores[:, :3]
    model, completed, kept = ablated(far + "1e9")
    assert np.corrcoef(kept.scores[0], prior[0])[0, 1] == pytest.approx(1, abs=1e-4)
    free = ablated(far + "1e-6")[2]
    sources = prompt_sources(completed.sequenced(), "sentence")
    measure = Ablations(model, completed, sources)
    halves = np.array([[1, *rest] for rest in itertools.product((0, 1), repeat=2)], bool)
    differences = (measure(halves) - measure(~halves)).sum(1)
    best = np.linalg.lstsq(2.0 * halves - 1, differences, rcond=None)[0]
    np.testing.assert_allclose(free.scores[0], best, atol=1e-3)
    assert free.diagnostics["forward_passes"] == 8 + 1
    assert free.diagnostics["backward_passes"] == 1
    assert free.diagnostics["r2"][0] <= 1
    assert free.quantity == "log-probability"


@pytest.mark.parametrize("answer", ["It is 30 and 1974.", "It is 5. It was built by Jonas Holm in 1980."])
def test_the_first_source_of_each_sentence_is_left_out_wherever_it_ranks(monkeypatch, answer):
    question = "When?"
    documents = {
        "refunds.txt": "Refunds are possible within 30 days. Shipping takes 5 days.",
        "pool.txt": "The pool was built by Anna Berg in 1974. The library was built by Jonas Holm. It is open.",
    }
    reader = Explainer(tiny.model("llama", "CausalLM", vocab_size=100, max_position_embeddings=600), tiny.letters())
    monkeypatch.setattr(cite_module, "verified", lambda *_: {4: 0.0})  # the test stops at one, that it is open
    cited = reader.cite(question, documents, answer=answer)
    first = {cited.names[int(scores.argmax())] for scores in cited.evidence.scores[:, cited.sources]}
    assert first - {"pool.txt:3"}
    assert set(cited.losses) == {"pool.txt:3", *first}
    everything = reader.cite(question, documents, answer=answer, verify=99)
    assert cited.losses == pytest.approx({name: everything.losses[name] for name in cited.losses}, abs=1e-4)
