"""Does an answer rest on its documents? Signals are compared on questions with and without the evidence."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import DataError, InputError
from ..explainer import Explainer
from ..inputs.documents import documents_by_name
from ..methods import Method, method_named
from ..methods.defaults import named_or_default
from ..models.model_digest import model_digest
from ..pipeline.ablations import Ablations
from ..pipeline.cite import ask
from ..pipeline.options import Options
from ..pipeline.sources import explain_sources, sources_and_parts
from .questions import read_questions
from .report import markdown_table
from .runs import Progress, ResultCache
from .statistics import Interval, interval_text

__all__ = [
    "Case",
    "Signal",
    "choose_threshold",
    "evaluate_grounding",
    "grounding_cases",
    "grounding_table",
    "load_cases",
]

SENTENCES = 3
"""Sentences of the documents made from QNLI."""

RESAMPLES = 2000
"""Resamples of the bootstrap."""

Array = npt.NDArray[np.float64]


class Case(NamedTuple):
    """A question with documents that hold the evidence for its answer or do not.

    Attributes:
        question: The question.
        documents: Texts by name.
        supported: Whether they hold the evidence.
        answer: The answer; None lets the model generate one.
    """

    question: str
    documents: Mapping[str, str]
    supported: bool
    answer: str | None = None


class Signal(NamedTuple):
    """How well a signal tells answers with evidence from answers without it.

    Attributes:
        name: What is measured of an answer.
        auroc: Area under the ROC curve, with its 95% bootstrap interval.
        precision: Average precision, with its interval.
        passes: Its cost in forward passes; a backward pass counts as two.
    """

    name: str
    auroc: Interval
    precision: Interval
    passes: float


@dataclass(frozen=True)
class Figures:
    """What was measured of a case; empty where the model gives no answer.

    Attributes:
        values: The signals, by name.
    """

    values: dict[str, float]


def load_cases(path: str | Path, limit: int, seed: int = 0) -> list[Case]:
    """Read cases from JSON lines.

    Args:
        path: Lines with "question", "documents" (as `cite` takes them), "supported" (true or false) and, if the answer
            was written elsewhere, "answer"; or QNLI's rows ("question", "sentence", "label"), two cases each.
        limit: Most questions.
        seed: Draws among QNLI's rows.

    Raises:
        DataError: If the file cannot be read; names file and line.
    """
    cases, pairs = read_questions(path, _case)
    cases = cases[: 2 * limit] or grounding_cases(pairs, limit, seed)
    if len({case.supported for case in cases}) < 2:
        raise DataError(f"{path}: needs supported and unsupported cases")
    return cases


def _case(row: Mapping[str, Any]) -> Case:
    question, supported, answer = row["question"], row["supported"], row.get("answer")
    if not (isinstance(question, str) and isinstance(supported, bool) and isinstance(answer, str | None)):
        raise TypeError("question and answer are texts, supported is true or false")
    return Case(question, documents_by_name(row["documents"]), supported, answer)


def grounding_cases(rows: Sequence[Mapping[str, Any]], count: int, seed: int = 0) -> list[Case]:
    """Make two cases of each question of QNLI: with the sentence that answers it among others, and without it.

    Args:
        rows: QNLI's rows; label 0 means that the sentence answers the question.
        count: Most questions.
        seed: Draws the questions, the other sentences and the place of the evidence.
    """
    random = np.random.default_rng(seed)
    answerable = [i for i, row in enumerate(rows) if row["label"] == 0]
    cases = []
    for i in random.permutation(answerable)[:count].tolist():
        question, evidence = rows[i]["question"], _one_line(rows[i]["sentence"])
        drawn = (rows[j] for j in random.permutation(len(rows)).tolist())
        others = (_one_line(row["sentence"]) for row in drawn if row["question"] != question)
        sentences = [text for text, _ in zip(dict.fromkeys(others), range(SENTENCES), strict=False) if text != evidence]
        place = int(random.integers(len(sentences)))
        with_evidence = [*sentences[:place], evidence, *sentences[place + 1 :]]
        cases += [
            Case(question, {"text": "\n\n".join(texts)}, supported)
            for texts, supported in ((with_evidence, True), (sentences, False))
        ]
    return cases


def _one_line(text: str) -> str:
    return " ".join(str(text).split())


def evaluate_grounding(
    explainer: Explainer,
    cases: Sequence[Case],
    *,
    method: str | Method | None = None,
    samples: int = 32,
    max_new_tokens: int = 16,
    seed: int = 0,
    folder: Path | None = None,
    on_progress: Progress | None = None,
) -> tuple[list[Signal], Array, list[bool]]:
    """Measure how well signals tell answers that rest on evidence from answers without it.

    Args:
        explainer: Of a causal language model.
        cases: Questions with documents.
        method: A method whose scores add up; `frozen-gradient` by default.
        samples: Ablations of ContextCite; 0 leaves it out.
        max_new_tokens: Most tokens of an answer that the model generates.
        seed: Seed of the bootstrap.
        folder: Keeps what was measured, so that a stopped run continues.
        on_progress: Called with what is done, cases done and cases in all.

    Returns:
        The signals, best first; the documents' share of each case; and which cases hold evidence. Cases that the model
        gives no answer to are left out.

    Raises:
        DataError: If cases of one kind only are left.
        InputError: If the scores of the method do not add up.
    """
    chosen = named_or_default(method, "completions")
    model = explainer._language_model
    shared = [] if folder is None else [model_digest(model), chosen.spec, samples, max_new_tokens]
    cache = ResultCache(folder, shared, Figures)
    measured, supported = [], []
    for number, case in enumerate(cases, start=1):
        measure = partial(_measure, explainer, case, chosen, samples, max_new_tokens)
        figures = cache.cached(measure, "case", case.question, dict(case.documents), case.answer)["values"]
        if figures:
            measured.append(figures)
            supported.append(case.supported)
        if on_progress is not None:
            on_progress("cases", number, len(cases))
    if len(set(supported)) < 2:
        raise DataError("the model answers no supported or no unsupported case")
    names = list(measured[0])
    values = {name: np.array([figures[name] for figures in measured]) for name in names}
    labels = np.array(supported)
    signals = [_signal(name, values[name], labels, PASSES.get(name, 1.0 + samples), seed) for name in names]
    return sorted(signals, key=lambda signal: -signal.auroc[0]), values[SHARE], supported


SHARE = "the documents' share"
PASSES = {SHARE: 3.0, "documents, per token": 3.0, "nats lost without the documents": 2.0, "log-probability": 1.0}


def _measure(explainer: Explainer, case: Case, method: Method, samples: int, max_new_tokens: int) -> dict[str, Any]:
    """Return the signals of a case by name, as "values"; none if the model gives no answer."""
    model = explainer._language_model
    try:
        completed = ask(model, case.question, case.documents, answer=case.answer, max_new_tokens=max_new_tokens)
    except InputError:
        return {"values": {}}
    tokens = len(completed.encoding) - completed.prompt_tokens
    scores = explain_sources(model, completed, Options(method=method), completed.named_sources, "sentence")
    if scores.bias is None:
        raise InputError(
            f"the documents' share needs scores that add up, such as frozen-gradient's, not {method.spec}'s"
        )
    parts = [float(part.sum()) for part in (scores.table, scores.rest, scores.written)]
    sources, _ = sources_and_parts(completed, completed.named_sources, None)
    present = np.stack([np.ones(len(sources), bool), np.zeros(len(sources), bool)])  # (2, S)
    with_documents, without = Ablations(model, completed, sources)(present).sum(1)  # nats
    figures = {
        SHARE: parts[0] / (np.abs(parts).sum() or 1.0),
        "documents, per token": parts[0] / tokens,
        "nats lost without the documents": (with_documents - without) / tokens,
        "log-probability": with_documents / tokens,
    }
    if samples:
        ablated = method_named(f"context-cite:samples={samples}")
        cited = explain_sources(model, completed, Options(method=ablated), completed.named_sources)
        figures[f"ContextCite, {samples} ablations"] = float(cited.scores.sum()) / tokens
    return {"values": figures}


def _signal(name: str, values: Array, labels: npt.NDArray[np.bool_], passes: float, seed: int) -> Signal:
    from sklearn.metrics import average_precision_score, roc_auc_score

    return Signal(
        name,
        _interval(roc_auc_score, labels, values, seed),
        _interval(average_precision_score, labels, values, seed),
        passes,
    )


def _interval(measure: Callable[..., float], labels: npt.NDArray[np.bool_], values: Array, seed: int) -> Interval:
    """Return a measure of a ranking with its 95% bootstrap interval; either kind of cases is drawn anew by itself."""
    from scipy.stats import bootstrap

    def measured(supported: Array, unsupported: Array) -> float:
        kinds = np.repeat([True, False], [len(supported), len(unsupported)])
        return float(measure(kinds, np.concatenate([supported, unsupported])))

    samples = values[labels], values[~labels]
    value = measured(*samples)
    if min(map(len, samples)) < 2:
        return value, value, value
    options: dict[str, Any] = {"n_resamples": RESAMPLES, "vectorized": False, "method": "percentile"}
    ends = bootstrap(samples, measured, rng=np.random.default_rng(seed), **options).confidence_interval
    return value, float(ends.low), float(ends.high)


def choose_threshold(shares: Array, supported: Sequence[bool]) -> tuple[float, float, float]:
    """Return the share from which on an answer is called supported: that of the highest balanced accuracy.

    Args:
        shares: The documents' share of each case, (N,).
        supported: Whether it holds evidence.

    Returns:
        The threshold, and the shares of supported and of unsupported cases that it gets right.
    """
    labels = np.array(supported)

    def right(threshold: float) -> tuple[float, float]:
        return float((shares[labels] >= threshold).mean()), float((shares[~labels] < threshold).mean())

    best = max(np.unique(shares).tolist(), key=lambda threshold: sum(right(threshold)))
    return best, *right(best)


def grounding_table(signals: Sequence[Signal], shares: Array, supported: Sequence[bool]) -> str:
    """Return the signals as a Markdown table, with the threshold of the documents' share."""
    rows = [[s.name, f"{s.passes:g}", interval_text(s.auroc), interval_text(s.precision)] for s in signals]
    threshold, right, left = choose_threshold(shares, supported)
    return (
        markdown_table(["signal", "passes", "AUROC ↑", "average precision ↑"], rows)
        + f"\nThreshold of the documents' share with the best balanced accuracy here: {threshold:.3f} "
        f"(supported answers {right:.2f} right, unsupported ones {left:.2f}).\n"
    )
