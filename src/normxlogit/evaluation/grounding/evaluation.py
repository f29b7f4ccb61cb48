"""Comparison of signals of grounding on questions with and without the evidence."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from ...errors import DataError
from ...explainer import Explainer
from ...methods import Method
from ...methods.defaults import named_or_default
from ..report import markdown_table
from ..runs import OnProgress, ResultCache, with_progress
from ..statistics import Interval, bootstrap_interval, interval_text
from .cases import Case, answers_from_evidence, swap_evidence
from .signals import LENS, PASSES, SHARE, Figures, SignalReader

Array = npt.NDArray[np.float64]

Evidence = Literal["there", "missing", "swapped"]

REGRESSION = "logistic regression of the signals"


@dataclass(frozen=True)
class MeasuredAnswer:
    """An answer with its signals.

    Attributes:
        case: The question with its documents.
        evidence: Whether they hold the evidence, lack it, or have other numbers or names in it.
    """

    case: Case
    evidence: Evidence
    figures: Figures

    @property
    def right(self) -> bool:
        """Whether the answer repeats a word or number that only the evidence has."""
        return self.evidence == "there" and answers_from_evidence(self.case, self.figures.answer)


class SignalQuality(NamedTuple):
    """How well a signal separates answers with evidence from answers without it.

    Attributes:
        name: The name of the signal.
        auroc: Area under the ROC curve, with its 95% bootstrap interval.
        precision: Average precision, with its interval.
        lead: The AUROC of the documents' share on the same answers less this one, with its interval.
        passes: Its cost in forward passes; a backward pass counts as two.
        answers: Answers with evidence, and without it.
    """

    name: str
    auroc: Interval
    precision: Interval
    lead: Interval
    passes: float
    answers: tuple[int, int]


class SignalComparison(NamedTuple):
    """The signals on some of the answers.

    Attributes:
        signals: The signals, best first.
    """

    title: str
    signals: list[SignalQuality]


def evaluate_grounding(
    explainer: Explainer,
    cases: Sequence[Case],
    texts: Sequence[str] = (),
    *,
    method: str | Method | None = None,
    samples: int = 32,
    ablated: int | None = None,
    max_new_tokens: int = 16,
    seed: int = 0,
    folder: Path | None = None,
    on_progress: OnProgress | None = None,
) -> list[MeasuredAnswer]:
    """Measure the signals of answers whose documents hold the evidence, lack it, or have it swapped.

    Args:
        explainer: The explainer of a causal language model.
        cases: Questions with documents.
        texts: Where the numbers and names of swapped evidence are drawn from.
        method: A method whose scores add up; `frozen-gradient` by default.
        samples: Ablations of ContextCite; 0 leaves it out.
        ablated: On how many of the first cases; None for all.
        max_new_tokens: Most tokens of an answer that the model generates.
        seed: Draws the numbers and names.
        folder: Keeps what was measured, so that a stopped run continues.
        on_progress: Called with the name of the work, the finished cases and all cases.

    Returns:
        The answers in the order of the cases, each followed by that of its swapped evidence; none for a case that the
        model gives no answer to.

    Raises:
        InputError: If the scores of the method do not add up.
    """
    model = explainer._language_model
    chosen_method = named_or_default(method, "completions")
    reader = SignalReader(model, chosen_method, max_new_tokens)
    cache = ResultCache[Figures](folder, model, [chosen_method.spec, max_new_tokens], Figures)
    answers: list[MeasuredAnswer] = []

    def measure(case: Case, evidence: Evidence, samples: int) -> Figures:
        request = (case.question, dict(case.documents), case.answer, samples)
        figures = cache.cached(partial(reader.read, case, samples), "case", *request)
        if figures.values:
            answers.append(MeasuredAnswer(case, evidence, figures))
        return figures

    for number, case in with_progress("cases", cases, on_progress):
        samples_of_case = samples if ablated is None or number < ablated else 0
        figures = measure(case, "there" if case.supported else "missing", samples_of_case)
        if case.supported and case.evidence and figures.values:
            swapped = swap_evidence(case, figures.answer, texts, seed)
            if swapped is not None:
                measure(swapped, "swapped", samples_of_case)
    return answers


def compare_signals(
    answers: Sequence[MeasuredAnswer], training: Sequence[MeasuredAnswer] = (), seed: int = 0
) -> list[SignalComparison]:
    """Compare how well signals separate answers with evidence from those without, or with swapped evidence.

    Args:
        answers: The results of `evaluate_grounding`.
        training: The same of other questions, on which logistic regressions are fitted; none for no regression.
        seed: Seed of the bootstrap.

    Raises:
        DataError: If answers of one kind only are there.
    """
    signals = [dict(answer.figures.values) for answer in answers]  # of each answer, by name
    if training:
        for name, values in _regressions(training, answers).items():
            for signals_of_answer, value in zip(signals, values.tolist(), strict=True):
                signals_of_answer[name] = value

    def compare(title: str, evidence: Evidence, questions: set[str]) -> list[SignalComparison]:
        """Compare answers with the evidence to those with `evidence`; nothing if one of the two is missing."""
        compared = [
            (answer, signals_of_answer)
            for answer, signals_of_answer in zip(answers, signals, strict=True)
            if answer.evidence in ("there", evidence) and answer.case.question in questions
        ]
        if len({answer.evidence for answer, _ in compared}) < 2:
            return []
        return [SignalComparison(title, _signals(compared, seed))]

    every_question = {answer.case.question for answer in answers}
    comparisons = compare("all questions, with the evidence or without it", "missing", every_question)
    if not comparisons:
        raise DataError("the model answers no supported or no unsupported case")
    supported = [answer for answer in answers if answer.evidence == "there"]
    if any(answer.case.evidence for answer in supported):  # otherwise nobody can tell where an answer comes from
        right = [answer for answer in answers if answer.right]
        title = f"questions answered from the evidence, {len(right)} of {len(supported)}"
        comparisons += compare(title, "missing", {answer.case.question for answer in right})
    swapped_questions = {answer.case.question for answer in answers if answer.evidence == "swapped"}
    title = "with the evidence, or with other numbers and names in it"
    return comparisons + compare(title, "swapped", swapped_questions)


def _signals(scored_answers: Sequence[tuple[MeasuredAnswer, dict[str, float]]], seed: int) -> list[SignalQuality]:
    """Return the signals of answers, best first."""
    signals = []
    for name in dict.fromkeys(name for _, score in scored_answers for name in score):
        answers_with_signal = [(answer, score) for answer, score in scored_answers if name in score]
        labels = np.array([answer.evidence == "there" for answer, _ in answers_with_signal])
        values = np.array([[score[name], score[SHARE]] for _, score in answers_with_signal], np.float64)  # (N, 2)
        if len(set(labels.tolist())) < 2:
            continue
        passes = [_passes(name, answer.figures) for answer, _ in answers_with_signal]

        def auroc_of_share_less_this(supported: Array, unsupported: Array) -> Array:
            return _auroc(supported[..., 1], unsupported[..., 1]) - _auroc(supported[..., 0], unsupported[..., 0])

        measures = (
            lambda supported, unsupported: _auroc(supported[..., 0], unsupported[..., 0]),
            lambda supported, unsupported: _average_precision(supported[..., 0], unsupported[..., 0]),
            auroc_of_share_less_this,
        )
        auroc, precision, lead = (_interval(measure, labels, values, seed) for measure in measures)
        counts = int(labels.sum()), int((~labels).sum())
        signals.append(SignalQuality(name, auroc, precision, lead, float(np.mean(passes)), counts))
    return sorted(signals, key=lambda signal: -signal.auroc[0])


def _passes(name: str, figures: Figures) -> float:
    if name == REGRESSION:  # one for the nats, and one for the three others
        return figures.passes[SHARE] + 2
    return figures.passes[name] if name in figures.passes else PASSES[name]


def _auroc(supported: Array, unsupported: Array) -> Array:
    """Return the AUROC: the probability that a supported answer has the higher value, counting ties half.

    Args:
        supported: (..., P).
        unsupported: (..., N).
    """
    from scipy.stats import rankdata

    count = supported.shape[-1]
    ranks = rankdata(np.concatenate([supported, unsupported], -1), axis=-1)[..., :count]  # (..., P)
    area: Array = (ranks.mean(-1) - (count + 1) / 2) / unsupported.shape[-1]
    return area


def _average_precision(supported: Array, unsupported: Array) -> Array:
    """Return the average precision of supported answers; the arguments are as for `_auroc`."""
    from scipy.stats import rankdata

    everything = rankdata(-np.concatenate([supported, unsupported], -1), "max", axis=-1)[..., : supported.shape[-1]]
    precision: Array = (rankdata(-supported, "max", axis=-1) / everything).mean(-1)
    return precision


def _interval(
    measure: Callable[[Array, Array], Array], labels: npt.NDArray[np.bool_], values: Array, seed: int
) -> Interval:
    """Return a measure of a ranking with its 95% bootstrap interval, resampled within each class."""

    def measured(supported: npt.NDArray[np.intp], unsupported: npt.NDArray[np.intp], axis: int = -1) -> Array:
        return measure(values[supported], values[unsupported])

    return bootstrap_interval(measured, (np.flatnonzero(labels), np.flatnonzero(~labels)), seed, batch=100)


def _regressions(training: Sequence[MeasuredAnswer], answers: Sequence[MeasuredAnswer]) -> dict[str, Array]:
    """Return predictions of logistic regressions, fitted to training answers with and without evidence."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    fitted_answers = [answer for answer in training if answer.evidence != "swapped"]
    labels = [answer.evidence == "there" for answer in fitted_answers]
    names = [name for name in fitted_answers[0].figures.values if name in (*PASSES, SHARE)]
    features: dict[str, Callable[[Figures], Sequence[float]]] = {
        REGRESSION: lambda figures: [figures.values[name] for name in names],
        LENS: lambda figures: figures.heads,
    }
    predicted = {}
    for name, features_of in features.items():
        if features_of(fitted_answers[0].figures):
            classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
            classifier.fit([features_of(answer.figures) for answer in fitted_answers], labels)
            predicted[name] = classifier.decision_function([features_of(answer.figures) for answer in answers])
    return predicted


def choose_threshold(answers: Sequence[MeasuredAnswer]) -> float:
    """Return the threshold of the documents' share with the highest balanced accuracy.

    Args:
        answers: Answers; only those whose evidence is there or missing count.
    """
    shares, labels = _shares(answers)
    candidates: list[float] = np.unique(shares).tolist()
    return max(candidates, key=lambda threshold: sum(_accuracies(shares, labels, threshold)))


def _shares(answers: Sequence[MeasuredAnswer]) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Return the documents' share of each answer without swapped evidence, and whether the evidence is there."""
    rows = [(a.figures.values[SHARE], a.evidence == "there") for a in answers if a.evidence != "swapped"]
    return np.array([share for share, _ in rows]), np.array([label for _, label in rows])


def _accuracies(shares: Array, labels: npt.NDArray[np.bool_], threshold: float) -> tuple[float, float]:
    """Return the accuracy of a threshold on supported and on unsupported answers."""
    return float((shares[labels] >= threshold).mean()), float((shares[~labels] < threshold).mean())


def grounding_table(
    comparisons: Sequence[SignalComparison], answers: Sequence[MeasuredAnswer], training: Sequence[MeasuredAnswer] = ()
) -> str:
    """Return the signals as Markdown tables, with the threshold of the documents' share and its accuracy."""
    text = ""
    for title, signals in comparisons:
        rows = [
            [
                s.name,
                f"{s.passes:.3g}",
                "{} + {}".format(*s.answers),
                interval_text(s.auroc),
                interval_text(s.precision),
                "" if s.name == SHARE else interval_text(s.lead),
            ]
            for s in signals
        ]
        columns = ["signal", "passes", "answers", "AUROC ↑", "average precision ↑", "AUROC of the share less this"]
        text += f"{title[0].upper()}{title[1:]}:\n\n{markdown_table(columns, rows)}\n"
    threshold = choose_threshold(training or answers)
    accuracy_of_supported, accuracy_of_unsupported = _accuracies(*_shares(answers), threshold)
    where = "on the training questions" if training else "here"
    return text + (
        f"Threshold of the documents' share with the best balanced accuracy {where}: {threshold:.3f} "
        f"(supported answers {accuracy_of_supported:.2f} right, unsupported ones {accuracy_of_unsupported:.2f}).\n"
    )
