"""Grounding: which signals tell answers with evidence from answers without it."""

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, roc_auc_score

from normxlogit import DataError, InputError
from normxlogit.evaluation.grounding.cases import Case, load_cases
from normxlogit.evaluation.grounding.evaluation import (
    REGRESSION,
    MeasuredAnswer,
    choose_threshold,
    compare_signals,
    evaluate_grounding,
    grounding_table,
)
from normxlogit.evaluation.grounding.signals import (
    ATTENTION,
    ENTROPY,
    LENS,
    LOG_PROBABILITY,
    NATS,
    SHARE,
    Figures,
    SignalReader,
)
from normxlogit.methods import FrozenGradient
from normxlogit.pipeline.citations.cite import ask
from tests import tiny
from tests.corpus.corpora import jsonl

ANSWERS = ("the movie was great .", "the cat sat .", "the plot is bad .")


@pytest.fixture
def cases(tmp_path):
    rows = [
        {
            "question": "was it good ?",
            "documents": ["the movie was great .", tail],
            "supported": known,
            "answer": answer,
        }
        for tail, known in (("a cat sat here .", True), ("the keys are bad .", False))
        for answer in ANSWERS
    ]
    return load_cases(jsonl(tmp_path / "cases.jsonl", rows), 10)[0]


def test_signals_are_those_of_plain_passes_of_the_model(writer, cases):
    """Against the model's own logits and attention probabilities, read by a loop over the answer's tokens."""
    case = cases[0]
    completed = ask(writer._language_model, case.question, case.documents, answer=case.answer)
    figures = SignalReader(writer._language_model, FrozenGradient(), 8).read(case, 4)
    values, ids, start = figures.values, list(completed.encoding.ids), completed.prompt_tokens
    plain = tiny.model("llama", "CausalLM")
    plain.set_attn_implementation("eager")
    with torch.no_grad():
        out = plain(torch.tensor([ids]), output_attentions=True)
    probabilities = out.logits[0].softmax(-1)
    text, offsets = completed.encoding.text, completed.encoding.offsets
    spans = [(text.index(document), text.index(document) + len(document)) for document in case.documents.values()]
    documents = [i for i, (a, b) in enumerate(offsets) if any(x <= a < b <= y for x, y in spans) and i < start]
    assert len(documents) == 10
    log_probabilities, entropies = [], []
    ratios = [[[] for _ in layer[0]] for layer in out.attentions]
    for place in range(start, len(ids)):
        row = probabilities[place - 1]
        log_probabilities.append(float(row[ids[place]].log()))
        entropies.append(-float((row * row.log()).sum()))
        for layer, attention in enumerate(out.attentions):
            for head, weights in enumerate(attention[0, :, place - 1]):
                context = float(weights[documents].mean())
                new = float(weights[start:place].mean()) if place > start else 0.0
                ratios[layer][head].append(context / (context + new))
    heads = [np.mean(head) for layer in ratios for head in layer]
    np.testing.assert_allclose(figures.heads, heads, atol=2e-6)
    assert values[ATTENTION] == pytest.approx(np.mean(heads), abs=1e-5)
    assert values[LOG_PROBABILITY] == pytest.approx(np.mean(log_probabilities), abs=1e-5)
    assert values[ENTROPY] == pytest.approx(-np.mean(entropies), abs=1e-5)
    left = [i for place, i in enumerate(ids) if place not in documents]
    logits = tiny.logits_of(plain, left).log_softmax(-1)
    count = len(ids) - start
    without = sum(float(logits[-count - 1 + k, ids[start + k]]) for k in range(count))
    assert values[NATS] == pytest.approx((sum(log_probabilities) - without) / count, abs=1e-5)
    assert figures.passes == {SHARE: 3.0, "ContextCite, 4 ablations": pytest.approx(3, abs=1)}


def test_shares_are_those_of_cite_and_what_was_measured_is_kept(writer, cases, tmp_path):
    answers = evaluate_grounding(writer, cases, samples=4, ablated=2, folder=tmp_path / "kept")
    assert [answer.evidence for answer in answers] == ["there"] * 3 + ["missing"] * 3
    for answer in answers:
        cited = writer.cite(answer.case.question, answer.case.documents, answer=answer.case.answer)
        sums = cited.attribution.whole().scores.tolist()
        parts = sum(sums[:-2]), *sums[-2:]
        assert answer.figures.values[SHARE] == pytest.approx(parts[0] / np.abs(parts).sum(), abs=1e-5)
        whole = [*(sum(part) for part in zip(*answer.figures.sentences, strict=True))]
        assert whole[:3] == pytest.approx(parts, abs=1e-4)
    assert ["ContextCite, 4 ablations" in answer.figures.values for answer in answers] == [True] * 2 + [False] * 4
    kept = {file: file.stat().st_mtime_ns for file in (tmp_path / "kept").iterdir()}
    again = evaluate_grounding(writer, cases, samples=4, ablated=2, folder=tmp_path / "kept")
    assert [a.figures for a in again] == [a.figures for a in answers]
    assert kept == {file: file.stat().st_mtime_ns for file in (tmp_path / "kept").iterdir()}
    assert len(kept) == len(cases)
    with pytest.raises(InputError, match="add up"):
        evaluate_grounding(writer, cases, method="occlusion", samples=0)


def test_swapped_evidence_keeps_the_answer(writer):
    case = Case(
        "was it good ?", {"text": "it was in 1974 . the movie was bad ."}, True, "in 1974 .", "it was in 1974 ."
    )
    there, swapped = evaluate_grounding(writer, [case], ["in 1980"], samples=0)
    assert (there.evidence, swapped.evidence) == ("there", "swapped")
    assert swapped.case.documents == {"text": "it was in 1980 . the movie was bad ."}
    assert swapped.figures.answer.strip() == there.figures.answer.strip() == "in 1974 ."
    assert there.right
    assert not swapped.right


def answer(evidence, share, other, question="a", text="word", heads=()):
    case = Case(question, {"text": "the evidence ."}, evidence == "there", evidence="evidence" * (evidence == "there"))
    values = {SHARE: share, NATS: other, ENTROPY: 0.0}
    return MeasuredAnswer(case, evidence, Figures(text, values, {SHARE: 3.0}, [], list(heads)))


def test_signals_are_compared_by_area_and_precision_on_answers_that_have_them():
    random = np.random.default_rng(0)
    answers = [
        answer(kind, random.normal(kind == "there"), random.normal(2 * (kind == "there")), str(n // 3 % 6), text)
        for n, kind in enumerate(["there", "missing", "swapped"] * 12)
        for text in ["evidence" if n // 3 % 6 < 3 else "word"]
    ]
    everything, right, swapped = compare_signals(answers, seed=1)
    assert "6 of 12" in right.title
    for comparison, other, questions in (
        (everything, "missing", "012345"),
        (right, "missing", {a.case.question for a in answers if a.right}),
        (swapped, "swapped", {a.case.question for a in answers if a.evidence == "swapped"}),
    ):
        chosen = [a for a in answers if a.evidence in ("there", other) and a.case.question in questions]
        labels = [a.evidence == "there" for a in chosen]
        shares = [a.figures.values[SHARE] for a in chosen]
        assert [s.auroc[0] for s in comparison.signals] == sorted(
            (s.auroc[0] for s in comparison.signals), reverse=True
        )
        for signal in comparison.signals:
            values = [a.figures.values[signal.name] for a in chosen]
            for interval, expected in (
                (signal.auroc, roc_auc_score(labels, values)),
                (signal.precision, average_precision_score(labels, values)),
                (signal.lead, roc_auc_score(labels, shares) - roc_auc_score(labels, values)),
            ):
                assert interval[0] == pytest.approx(expected)
                assert interval[1] <= interval[0] <= interval[2]
            assert signal.answers == (sum(labels), len(labels) - sum(labels))
    table = grounding_table([everything, right, swapped], answers)
    assert table.count("| signal |") == 3
    with pytest.raises(DataError, match="no supported or no unsupported"):
        compare_signals([a for a in answers if a.evidence == "there"])


def test_regressions_are_fitted_to_training_answers_alone():
    """Where the nats tell training answers apart, the regression follows them, also where they mislead."""
    training = [answer(kind, 0.5, kind == "there", heads=[kind == "there", 1.0]) for kind in ("there", "missing") * 5]
    training += [answer("swapped", 0.5, 5.0, heads=[9.0, 0.0])] * 20
    misled = [answer(kind, kind == "there", kind == "missing", heads=[0.3, 0.0]) for kind in ("there", "missing") * 3]
    signals = {signal.name: signal for signal in compare_signals(misled, training)[0].signals}
    assert signals[SHARE].auroc[0] == 1.0
    assert signals[REGRESSION].auroc[0] == 0.0
    assert signals[REGRESSION].lead[0] == 1.0
    assert signals[LENS].auroc[0] == 0.5
    assert (signals[REGRESSION].passes, signals[LENS].passes) == (5.0, 1.0)
    assert REGRESSION not in {signal.name for signal in compare_signals(misled)[0].signals}


def test_the_threshold_is_that_of_the_best_balanced_accuracy_on_training_answers():
    shares = zip([0.1, 0.2, 0.3, 0.4, 0.5, 0.6], [False, False, True, False, True, True], strict=True)
    answers = [answer("there" if known else "missing", share, 0) for share, known in shares]
    assert choose_threshold([*answers, answer("swapped", 0.9, 0)]) == 0.3
    assert "here: 0.300 (supported answers 1.00 right, unsupported ones 0.67)" in grounding_table([], answers)
    training = [answer("there", 0.55, 0), answer("missing", 0.5, 0)]
    table = grounding_table([], answers, training)
    assert "on the training questions: 0.550 (supported answers 0.33 right, unsupported ones 1.00)" in table
