import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score

from normxlogit import ALL, Explainer, MethodError
from normxlogit.methods import Scores
from normxlogit.methods.normxlogit import InputNorm
from paper.alignment.measures import accuracy, align, average_precision, dot_product, normalisation_of
from paper.minimal_pairs import Item
from tests import tiny


def mask(*places, size=4):
    return np.isin(np.arange(size), places)


def test_the_papers_worked_example():
    scores = np.array([0.3, 0.1, 0.5, 0.1])
    assert dot_product(scores, mask(0), "sum") == pytest.approx(0.3)
    assert average_precision(scores, mask(0)) == pytest.approx(0.5)
    assert average_precision(scores, mask(2)) == pytest.approx(1.0)
    # at index 1 the token ties with the last one: third or fourth, (1/3 + 1/4) / 2; alone at its score it is third
    assert average_precision(scores, mask(1)) == pytest.approx((1 / 3 + 1 / 4) / 2)
    assert average_precision(np.array([0.3, 0.11, 0.5, 0.1]), mask(1)) == pytest.approx(1 / 3)


def test_average_precision_is_scikit_learns_without_ties():
    rng = np.random.default_rng(0)
    for size in range(1, 12):
        for _ in range(20):
            scores, evidence = rng.normal(size=size), rng.random(size) < 0.4
            evidence[rng.integers(size)] = True
            assert average_precision(scores, evidence) == pytest.approx(average_precision_score(evidence, scores))


# text, place of the target, target, foil, evidence words, paradigm; places with [CLS] counted
TEXTS = [
    ("the keys to the cabinet are here", 6, "are", "is", ((2,),), "darn"),
    ("the movies are bad", 4, "are", "is", ((2, 3),), "rpsv"),  # movie, ##s
    ("these actors saw themselves .", 5, "themselves", "himself", ((1,), (2, 3)), "ana"),
]


def items(explainer):
    made = []
    for text, place, target, foil, evidence, short in TEXTS:
        (encoding,) = explainer.encode([text])
        assert encoding.tokens[place] == target
        ids = [tiny.VOCABULARY["[MASK]"] if i == place else token for i, token in enumerate(encoding.ids)]
        encoding = replace(encoding, inputs={**encoding.inputs, "input_ids": ids}, position=place)
        made.append(Item(short, encoding, tiny.VOCABULARY[target], tiny.VOCABULARY[foil], evidence=evidence))
    return made


@pytest.fixture(scope="module")
def bert():
    return Explainer(tiny.model("bert", "MaskedLM"), tiny.tokenizer_for("bert"), batch_tokens=30)


@pytest.mark.parametrize("method", ["logat", "normxlogit", "value-zeroing:rollout=false", "decompx", "input-norm"])
def test_figures_are_those_of_the_explainers_scores(bert, method):
    made = items(bert)
    found = align(bert._model, made, method, words=["movie"] if method == "logat" else ())
    probes = {"target": None, "foil": None, "movie": None} if method == "logat" else {"": None}
    assert [a.title for a in found] == [f"{method}({p})" if p else method for p in probes]
    for alignment, probe in zip(found, probes, strict=True):
        assert alignment.layers == {"decompx": (3,), "input-norm": (0,)}.get(method, (1, 2, 3))
        per_item = []
        for item in made:
            target = {"foil": item.foil, "movie": tiny.VOCABULARY["movie"]}.get(probe, item.target)
            layers = ALL if len(alignment.layers) == 3 else None
            (a,) = bert([item.encoding], method=method, target=target, layers=layers)
            scores = np.delete(np.atleast_2d(a.scores), item.position, axis=-1)
            known = np.isin(np.delete(np.arange(len(a.tokens)), item.position), [i for w in item.evidence for i in w])
            per_item.append(
                [[dot_product(s, known), dot_product(s, known, "sum"), average_precision(s, known)] for s in scores]
            )
        table = np.array(per_item)
        for index, metric in enumerate(("softmax", "sum", "average_precision")):
            assert alignment.figures["all"][metric] == pytest.approx(table[:, :, index].mean(0), abs=1e-4)
            assert alignment.figures["darn"][metric] == pytest.approx(table[0, :, index], abs=1e-4)
            assert alignment.errors["all"][metric] == pytest.approx(
                table[:, :, index].std(0, ddof=1) / math.sqrt(3), abs=1e-4
            )
        assert alignment.count == {"all": 3, "darn": 1, "rpsv": 1, "ana": 1}


def test_the_published_protocol_counts_first_pieces(bert):
    made = [items(bert)[1]]
    assert [len(word) for word in made[0].evidence] == [2]
    both, first = (align(bert._model, made, "input-norm", protocol=p)[0] for p in ("default", "published"))
    (a,) = bert([made[0].encoding], method="input-norm", target=made[0].target)
    keep = [0, 1, 2, 3, 5, 6]
    shares = np.exp(a.scores[keep]) / np.exp(a.scores[keep]).sum()
    assert both.figures["all"]["softmax"][0] == pytest.approx(shares[2] + shares[3], abs=1e-5)
    assert first.figures["all"]["softmax"][0] == pytest.approx(shares[2], abs=1e-5)


def test_accuracy_is_that_of_the_models_own_logits(bert):
    made = items(bert)
    right = []
    for item in made:
        with torch.no_grad():
            inputs = {name: torch.tensor([values]) for name, values in item.encoding.inputs.items()}
            logits = tiny.model("bert", "MaskedLM")(**inputs).logits[0, item.position]
        right.append(float(logits[item.target] > logits[item.foil]))
    found = accuracy(bert._model, made)
    assert found["all"][-1] == pytest.approx(np.mean(right))
    assert [found[s][-1] for s in ("darn", "rpsv", "ana")] == right
    assert len(found["all"]) == 3


def test_scores_that_are_no_numbers_are_not_measured(bert, monkeypatch):
    nothing = lambda _, request: Scores(request.forward.hidden[:, None, None, :, 0] * math.nan)  # noqa: E731
    monkeypatch.setattr(InputNorm, "score", nothing)
    with pytest.raises(MethodError, match="input-norm gives scores that are not finite"):
        align(bert._model, items(bert), "input-norm")


def test_the_papers_methods_are_normalised_by_a_softmax_and_others_by_their_sum():
    wanted = dict.fromkeys(("logat", "normxlogit", "input-norm", "random"), "softmax")
    wanted |= dict.fromkeys(("globenc", "alti", "value-zeroing", "decompx"), "sum")
    assert {method: normalisation_of(method) for method in wanted} == wanted
