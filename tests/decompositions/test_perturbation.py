"""Perturbation methods against plain loops, enumeration of all subsets and Captum, and what the model is asked."""

import itertools
import math

import numpy as np
import pytest
import torch

from normxlogit import ALL, Explainer
from normxlogit.decompositions.surrogates import shapley_subsets
from normxlogit.methods import ContextCite
from tests import tiny

METHODS = ["occlusion", "lime", "context-cite", "kernel-shap"]
MASK = tiny.VOCABULARY["[MASK]"]
FOUR = "the movie never good"


def close(a, b, tolerance=1e-4):
    b = np.asarray(b)
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * max(1e-3, float(np.abs(b).max())))


def bert(text, **options):
    e = tiny.explainer("bert", **options)
    return e, e.tokenizer(*text if isinstance(text, tuple) else (text,), return_tensors="pt")


def masked_logits(e, inputs, gone):
    ids = inputs["input_ids"].clone()
    ids[0, list(gone)] = MASK
    with torch.no_grad():
        return e.model(**{**inputs, "input_ids": ids}).logits[0]


def test_occlusion_equals_a_plain_loop():
    e, inputs = bert(tiny.PAIR, num_labels=3)
    whole = masked_logits(e, inputs, [])
    label = int(whole.argmax())
    special = {0, 7, inputs["input_ids"].shape[1] - 1}
    count = inputs["input_ids"].shape[1]
    loss = [0.0 if i in special else float((whole - masked_logits(e, inputs, [i]))[label]) for i in range(count)]
    close(e(tiny.PAIR, method="occlusion").scores, loss)
    everything = e(tiny.PAIR, method="occlusion", target=ALL).scores
    assert everything.shape == (3, count)
    close(everything[label], loss)


def test_a_window_takes_out_neighbours():
    e, inputs = bert(FOUR)
    whole = masked_logits(e, inputs, [])[0]
    windows = [(1, 2), (2, 3), (3, 4)]
    losses = [float(whole - masked_logits(e, inputs, window)[0]) for window in windows]
    expected = [0.0] + [np.mean([x for w, x in zip(windows, losses, strict=True) if i in w]) for i in range(1, 5)] + [0]
    close(e(FOUR, method="occlusion:window=2", target=0).scores, expected)
    together = e([*tiny.TEXTS, FOUR], method="occlusion:window=2", target=0)[-1]
    close(together.scores, expected)


def test_occlusion_deletes_from_causal_models_and_keeps_what_begins_the_text():
    model, made = tiny.model("llama", "CausalLM"), tiny.tokenizer(specials=False)
    made.bos_token = "[CLS]"
    ids = made("[CLS] " + tiny.TEXTS[0])["input_ids"]
    assert ids[0] == made.bos_token_id

    def quantity(ids):
        logits = tiny.logits_of(model, ids)[-1]
        return float(logits[tiny.VOCABULARY["good"]] - logits.mean())

    expected = [0.0] + [quantity(ids) - quantity(ids[:i] + ids[i + 1 :]) for i in range(1, len(ids))]
    (found,) = Explainer(model, made)({"input_ids": [ids]}, method="occlusion", target="good")
    close(found.scores, expected)


def test_shapley_values_equal_enumeration():
    e, inputs = bert(FOUR, scale=8.0)
    players = range(1, 5)
    value = {
        there: float(masked_logits(e, inputs, set(players) - set(there))[1])
        for size in range(5)
        for there in itertools.combinations(players, size)
    }

    def share(i, there):
        weight = math.factorial(len(there)) * math.factorial(3 - len(there)) / math.factorial(4)
        return weight * (value[tuple(sorted((*there, i)))] - value[there])

    expected = [sum(share(i, there) for there in value if i not in there) for i in players]
    found = e(FOUR, method="kernel-shap", target=1)
    close(found.scores[1:-1], expected, 1e-4)
    close(found.scores.sum(), value[1, 2, 3, 4] - value[()], 1e-3)
    assert (found.scores[0], found.scores[-1]) == (0, 0)


def test_sampled_subsets_come_close_to_enumeration():
    text = "the movie never was very good and awful"
    e, _ = bert(text, scale=8.0)
    exact = e(text, method="kernel-shap:samples=256", target=1).scores
    close(e(text, method="kernel-shap:samples=300", target=1).scores, exact, 1e-6)
    sampled = e(text, method="kernel-shap:samples=180", target=1).scores
    assert np.corrcoef(exact, sampled)[0, 1] > 0.95
    assert np.abs(exact - sampled).max() > 1e-6, "one enumerates and the other samples"
    close(sampled.sum(), exact.sum(), 1e-2)


def test_sizes_are_drawn_as_the_shapley_kernel_weighs_them():
    sizes = [int(subset.sum()) for subset in itertools.islice(shapley_subsets(6, 0), 4002)]
    assert sizes[:2] == [6, 0]
    chances = np.array([1 / (size * (6 - size)) for size in range(1, 6)])
    np.testing.assert_allclose(np.bincount(sizes[2:])[1:] / 4000, chances / chances.sum(), atol=0.025)


def test_context_cite_fits_a_lasso_with_presence_standardised_to_the_log_odds():
    from sklearn.linear_model import Lasso
    from sklearn.preprocessing import StandardScaler

    e, inputs = bert(FOUR, scale=8.0, num_labels=3)
    present = ContextCite(64, seed=3).subsets(4)
    assert 0.4 < present.mean() < 0.6
    logits = torch.stack([masked_logits(e, inputs, 1 + np.flatnonzero(~row)) for row in present])  # (N, C)
    scaler = StandardScaler().fit(present)
    for contrast, odds in ((None, logits.softmax(-1)[:, 2].logit()), (0, logits[:, 2] - logits[:, 0])):
        expected = Lasso(alpha=0.01).fit(scaler.transform(present), odds.double()).coef_ / scaler.scale_
        found = e(FOUR, method="context-cite:samples=64,seed=3", target=2, contrast=contrast)
        close(found.scores[1:-1], expected, 1e-3)


def test_lime_weighs_and_penalises_as_captum_does():
    from captum.attr import Lime

    e, inputs = bert(tiny.TEXTS[0])
    with torch.no_grad():
        e.model.classifier.weight.mul_(50)  # a penalty of 0.01 is of the size of these logits' changes otherwise

    def ask(presence):
        return masked_logits(e, inputs, (1 + (presence[0] == 0).nonzero()[:, 0]).tolist())[:1]

    expected = Lime(ask).attribute(torch.ones(1, 5), n_samples=400).flatten()
    found = e(tiny.TEXTS[0], method="lime:samples=400", target=0).scores[1:-1]
    np.testing.assert_allclose(found, expected, atol=0.1 * float(expected.abs().max()))  # samples differ, kernels not


@pytest.mark.parametrize("method", METHODS)
def test_the_mask_that_is_the_question_stays(method):
    e = tiny.explainer("roberta", "MaskedLM")
    found = e(tiny.MASKED, target="are", contrast="is", method=method)
    assert found.scores[found.target.position] == 0
    if method == "occlusion":
        inputs = e.tokenizer(tiny.MASKED, return_tensors="pt")
        place, are, other = found.target.position, tiny.VOCABULARY["are"], tiny.VOCABULARY["is"]
        whole, less = masked_logits(e, inputs, [])[place], masked_logits(e, inputs, [2])[place]
        close(found.scores[2], float((whole - less)[are] - (whole - less)[other]))


def test_the_end_of_an_answer_is_asked_at_its_end():
    e = tiny.explainer("bert", "QuestionAnswering")
    for pair in (("is it good ?", text) for text in [tiny.PAIR[0], *tiny.TEXTS]):
        start, end = (e(pair, target=name).target.position for name in ("start", "end"))
        if start != end:
            break
    found = e(pair, target="end", method="occlusion")
    inputs = e.tokenizer(*pair, return_tensors="pt")
    losses = []
    with torch.no_grad():
        whole = e.model(**inputs).end_logits[0, end]
        for place, special in enumerate(found.special_tokens_mask):
            ids = inputs["input_ids"].clone()
            ids[0, place] = ids[0, place] if special else MASK
            losses.append(float(whole - e.model(**{**inputs, "input_ids": ids}).end_logits[0, end]))
    assert start != end
    close(found.scores, losses)
