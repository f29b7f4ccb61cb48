"""Do scores of pictures and sounds point at the evidence? Methods are compared where it is known."""

import hashlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from normxlogit.errors import DataError, NormXLogitError
from normxlogit.evaluation.report import markdown_table
from normxlogit.evaluation.runs import OnProgress, ResultCache, with_progress
from normxlogit.evaluation.statistics import Interval, interval_text, mean_interval
from normxlogit.explainer import Explainer
from normxlogit.methods import FrozenGradient, Method, method_named
from normxlogit.methods.defaults import named_or_default
from normxlogit.results.attribution import Attribution
from normxlogit.results.units.media import Medium
from normxlogit.results.verification import LEAST_LOSS

from .pointing_cases import PointingCase, middles, on_evidence
from .pointing_peers import PEERS, STEPS, SignalAnswer, signal_answer

Array = npt.NDArray[np.float64]

RANDOM = "random"

SPARE = 2
"""Tokens that a model may write more than the right answer has."""

REMOVED = (0.05, 0.1, 0.2, 0.5)
"""Shares of the parts that are removed for the deletion curve."""


TESTED = 4
"""Parts of the highest scores that are left out together, to ask the model whether they matter."""


@dataclass(frozen=True)
class PointedWord:
    """A word of a right answer, as a method explains it.

    Attributes:
        case: Number of the case.
        level: The kind of question.
        strongest: Whether the part with the highest score lies on the evidence.
        mass: Share of the positive scores that lies on it.
        drop: Mean loss of the word's probability when the highest ranked parts are removed.
        area: Share of the parts that is evidence: what chance would give.
    """

    case: int
    level: str
    strongest: float
    mass: float
    drop: float
    area: float


@dataclass(frozen=True)
class Pointing:
    """How well a method points at the evidence.

    Attributes:
        method: Its name, with settings that differ from the defaults.
        passes: Forward and backward passes for an answer of one word, besides writing it.
        words: What was measured; of right answers only.
        cases: Cases of each kind of question.
        right: How many of them the model answered right.
        losses: The nats that each right answer loses without the parts that the default method scores highest, and
            without as many others, with the kind of its question; the same beside every method.
    """

    method: str
    passes: int
    words: list[PointedWord] = field(default_factory=list)
    cases: dict[str, int] = field(default_factory=dict)
    right: dict[str, int] = field(default_factory=dict)
    losses: list[tuple[str, float, float]] = field(default_factory=list)


@dataclass(frozen=True)
class _Answered:
    """What is kept of one case: whether it was right, and each method's figures of its words.

    Attributes:
        right: Whether every word is the right one.
        parts: How many parts the picture or sound has.
        figures: Strongest, mass, drop and area of each word, by method.
        losses: Nats that the answer loses without the parts of the highest scores, and without others; empty where
            there are too few.
    """

    right: bool
    parts: int = 0
    figures: Mapping[str, Sequence[Sequence[float]]] = field(default_factory=dict)
    losses: Sequence[float] = ()


def pointing_methods() -> list[str]:
    """Return what is compared unless other methods are named."""
    named = [named_or_default(None, use).spec for use in ("media", "completions")]
    named += [f"frozen-gradient:read_at={place}" for place in ("all", "-1")]
    return [*named, "normxlogit", *PEERS]


def evaluate_pointing(
    explainer: Explainer,
    cases: Sequence[PointingCase],
    methods: Sequence[str] = (),
    *,
    seed: int = 0,
    folder: Path | None = None,
    on_progress: OnProgress | None = None,
) -> list[Pointing]:
    """Measure how well methods point at the evidence of right answers.

    Args:
        explainer: A model of pictures and text, or an encoder-decoder model of speech, with its processor.
        cases: Pictures or sounds with their evidence.
        methods: Methods of this library, and of `PEERS`, which Captum applies to the caller's own model;
            `pointing_methods` if there are none. A ranking by chance is added.
        seed: Of that ranking.
        folder: Keeps what was measured, so that a stopped run continues.
        on_progress: Called with what is done, cases done and cases in all.

    Returns:
        One for each method that works on the model.

    Raises:
        DataError: If the model answers no case right.
    """
    chosen = {name: None if name in PEERS else method_named(name) for name in methods or pointing_methods()}
    names = [name if method is None else method.spec for name, method in chosen.items()]
    cache = ResultCache[_Answered](folder, explainer.task_model, [names, REMOVED, seed], _Answered)
    answered = []
    for number, case in with_progress("cases", cases, on_progress):
        digest = hashlib.sha256(case.path.read_bytes()).hexdigest()
        measure = partial(_measure, explainer, case, dict(zip(names, chosen.values(), strict=True)), seed + number)
        key = (str(case.path.name), digest, case.question, case.answer, case.evidence)
        answered.append(cache.cached(measure, "case", *key))
    first_right = next((answer for answer in answered if answer.right), None)
    if first_right is None:
        raise DataError("the model answers none of these cases right, and a wrong answer rests on something else")
    answered_cases = list(zip(cases, answered, strict=True))
    case_counts = dict(Counter(case.level for case in cases))
    right_counts = dict(Counter(case.level for case, answer in answered_cases if answer.right))
    losses = [(case.level, answer.losses[0], answer.losses[1]) for case, answer in answered_cases if answer.losses]
    results = []
    for name in [*names, RANDOM]:
        words = [
            PointedWord(number, case.level, *figures)
            for number, (case, answer) in enumerate(answered_cases)
            for figures in answer.figures.get(name, ())
        ]
        if words:
            passes = _passes(name, chosen.get(name), first_right.parts)
            results.append(Pointing(name, passes, words, case_counts, right_counts, losses))
    return results


def _passes(name: str, method: Method | None, parts: int) -> int:
    """Return the passes of a method for an answer of one word.

    Args:
        name: Its name.
        method: The method of this library; None for one of `PEERS`, and for chance.
        parts: How many parts the picture or the sound has.
    """
    if method is not None:
        return 2 if isinstance(method, FrozenGradient) else 1
    return {"gradient-x-input": 2, "integrated-gradients": 2 * STEPS, "occlusion": parts + 1, RANDOM: 0}.get(name, 1)


def _measure(explainer: Explainer, case: PointingCase, methods: dict[str, Method | None], seed: int) -> _Answered:
    """Measure the methods on a case.

    Args:
        explainer: The model.
        case: The case.
        methods: Methods of this library, and None for each of `PEERS`, by name.
        seed: Of the ranking by chance.
    """
    most = len(explainer.language_model.tokenizer(case.answer)["input_ids"]) + SPARE
    g = explainer.generate(case.prompt, method="frozen-gradient:read_at=0", max_new_tokens=most)
    rows = _rows_of_words(g, case.answer)
    if rows is None:
        return _Answered(right=False)
    media: Medium = (g.images or g.audio)[0]
    answer = signal_answer(explainer, g, case.prompt)
    scored = {
        RANDOM: replace(media, scores=np.random.default_rng(seed).normal(size=media.scores.shape).astype(np.float32))
    }
    for name, method in methods.items():
        with suppress(NormXLogitError):  # a method that does not work on this model has no row in the table
            if method is None:
                scored[name] = replace(media, scores=answer.scores(name).astype(np.float32))
            else:
                explained = explainer.generate(case.prompt, method=method, max_new_tokens=most)
                scored[name] = (explained.images or explained.audio)[0]
    figures = {name: _figures(medium, media, case, rows, answer) for name, medium in scored.items()}
    losses = _losses(explainer, case, g, rows, most)
    return _Answered(right=True, parts=media.scores[0].size, figures=figures, losses=losses)


def _losses(
    explainer: Explainer, case: PointingCase, g: Attribution, rows: list[list[int]], most: int
) -> tuple[float, ...]:
    """Return the nats that an answer loses without the parts of the highest scores, and without as many others.

    Args:
        explainer: The model.
        case: The case.
        g: What the model generated.
        rows: The generated tokens of each word of the answer.
        most: Most tokens that are generated.

    Returns:
        Both; nothing where there are too few parts.
    """
    if not case.question:  # a sound, which is transcribed
        tested = explainer.generate(case.prompt, max_new_tokens=most, verify=TESTED)
    else:
        start = g.prompt_tokens or 0
        answer = list(g.token_ids[start : start + rows[-1][-1] + 1])
        tested = explainer.explain_completion(case.prompt, answer, verify=TESTED)
    verified = tested.verified
    if verified is None or verified.control is None:
        return ()
    return tuple(verified.original.value - without.value for without in (verified.together, verified.control))


def _rows_of_words(g: Attribution, answer: str) -> list[list[int]] | None:
    """Return which generated tokens make each word of an answer; None where the text begins with another one."""
    start = g.prompt_tokens or 0
    words = [word for word in g.words() if word.tokens[-1] >= start and any(map(str.isalnum, word.text))]
    right = answer.casefold().split()
    if [word.text.casefold() for word in words[: len(right)]] != right:
        return None
    words = words[: len(right)]
    return [[token - start for token in word.tokens if token >= start] for word in words]


def _figures(
    scored: Medium, media: Medium, case: PointingCase, rows: list[list[int]], answer: SignalAnswer
) -> list[list[float]]:
    """Return strongest, mass, drop and area of each word.

    Args:
        scored: The scores.
        media: The parts where they enter the model, which are removed.
        case: Its evidence.
        rows: The tokens of each word.
        answer: The model's.
    """
    distances = middles(media)[:, None] - middles(scored)[None]  # (N, M, axes)
    nearest = np.square(distances).sum(-1).argmin(1)  # (N,), of each removed part the scored one
    figures = []
    for tokens, evidence in zip(rows, case.evidence, strict=True):
        scores = np.asarray(scored.scores[tokens].sum(0), np.float64).ravel()  # (M,)
        inside = on_evidence(scored, evidence)  # (M,)
        positive = np.clip(scores, 0, None)
        mass = positive[inside].sum() / positive.sum() if positive.any() else 0.0
        order = np.argsort(-scores[nearest], kind="stable")  # (N,)
        removed = [np.isin(np.arange(len(order)), order[: math.ceil(share * len(order))]) for share in REMOVED]
        probabilities = [answer.probabilities(without)[tokens].prod() for without in removed]
        drop = answer.own_probabilities[tokens].prod() - np.mean(probabilities)
        figures.append([float(inside[scores.argmax()]), float(mass), float(drop), float(inside.mean())])
    return figures


def pointing_table(results: Sequence[Pointing], seed: int = 0) -> str:
    """Return a Markdown table for each kind of question, the method that points best first.

    Args:
        results: What `evaluate_pointing` returns.
        seed: Of the bootstrap over cases.
    """
    columns = ["method", "passes", "strongest part on the evidence ↑", "positive mass on it ↑", "drop ↑"]
    tables = []
    for level in results[0].cases:
        rows = []
        for result in results:
            words = [word for word in result.words if word.level == level]
            if words:
                figures = [[getattr(word, name) for word in words] for name in ("strongest", "mass", "drop")]
                rows.append((result, [_interval(words, values, seed) for values in figures]))
        if not rows:
            continue
        rows.sort(key=lambda row: [-interval[0] for interval in row[1]])
        lines = [[r.method, str(r.passes), *(interval_text(i) for i in intervals)] for r, intervals in rows]
        area = np.mean([word.area for word in results[0].words if word.level == level])
        right, cases = results[0].right.get(level, 0), results[0].cases[level]
        title = (
            f"{level or 'All questions'}: {right} of {cases} answered right; the evidence is {area:.2f} of the parts"
        )
        tables.append(f"{title}\n\n{markdown_table(columns, lines)}")
    return "\n".join(tables)


def losses_table(results: Sequence[Pointing], seed: int = 0) -> str:
    """Return what right answers lose without the parts of the highest scores as a Markdown table.

    Args:
        results: What `evaluate_pointing` returns.
        seed: Of the bootstrap over cases.
    """
    columns = ["questions", "answers", f"lose a nat without the {TESTED} strongest parts ↑", "without as many others ↓"]
    lines = []
    for level in results[0].cases:
        losses = np.array([row[1:] for row in results[0].losses if row[0] == level]).reshape(-1, 2)
        if len(losses):
            lost = (losses > LEAST_LOSS).astype(np.float64)  # (N, 2)
            shares = [interval_text(mean_interval(column, seed)) for column in lost.T]
            lines.append([level or "all", str(len(losses)), *shares])
    return markdown_table(columns, lines)


def _interval(words: Sequence[PointedWord], values: Sequence[float], seed: int) -> Interval:
    """Return the mean over words, with an interval from resampled cases."""
    _, case = np.unique([word.case for word in words], return_inverse=True)
    counts = np.bincount(case).astype(np.float64)
    return mean_interval(np.bincount(case, np.asarray(values, np.float64)).astype(np.float64), seed, counts)
