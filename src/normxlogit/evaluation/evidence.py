"""Known evidence: are the parts of a text that its answer is known to rest on scored highest?"""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from math import comb
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import DataError, MethodError, UnsupportedModelError
from ..explainer import Explainer
from ..methods import Method
from ..results.attribution import Attribution
from ..results.storage.schema import Index, check, require
from ..results.units.kinds import SourceKind
from ..text.boundaries import word_spans
from ..text.same import find_text, word_key
from .datasets import parsed_rows
from .report import markdown_table
from .runs import OnProgress, Refused, with_progress
from .statistics import Array, interval_text, mean_interval

Mask = npt.NDArray[np.bool_]

Part = str | tuple[Index, Index]
"""A part of a text: words, wherever they stand, or a span (start, end) of its characters."""


@dataclass(frozen=True)
class Known:
    """An input whose answer is known to rest on parts of it; left out if the model does not answer with the target.

    Attributes:
        evidence: The parts that the answer is known to rest on.
        text: The text.
        text_pair: The second text of a pair.
        messages: The messages of a chat, instead of a text.
        target: The right answer, a label or a token; None for whatever the model answers.
        contrast: Another label, token or completion, against which the answer is explained.
        completion: The answer that is explained, where it is not a label or a token.
        units: What is ranked: each "word", "sentence", "paragraph" or "message".
        among: Parts whose units alone are ranked; empty for all of the input.
    """

    evidence: tuple[Part, ...] = ()
    text: str = ""
    text_pair: str | None = None
    messages: Any = None
    target: str | int | None = None
    contrast: str | int | None = None
    completion: str | None = None
    units: SourceKind = "word"
    among: tuple[Part, ...] = ()

    @property
    def inputs(self) -> Any:
        """What the model reads."""
        return self.messages or (self.text if self.text_pair is None else (self.text, self.text_pair))


class Place(NamedTuple):
    """Where a unit, or a part with evidence, stands in an input.

    Attributes:
        text: In which of two texts, 0 or 1; None for what stands in neither, such as a special token.
        start: Its first character there.
        end: One past its last character.
    """

    text: int | None
    start: int
    end: int

    def overlaps(self, places: Sequence["Place"]) -> bool:
        """Return whether it has a character in common with one of several places."""
        return any(self.text == text and self.start < end and start < self.end for text, start, end in places)


class Judged(NamedTuple):
    """An input that is measured: the model answers as it should, and reads the evidence.

    Attributes:
        case: The input with its evidence.
        tokens: A result that has the input's tokens; its scores are those of the method `random`.
        units: The U units that are ranked.
        is_evidence: Which of them are evidence, (U,).
    """

    case: Known
    tokens: Attribution
    units: list[Place]
    is_evidence: Mask


@dataclass(frozen=True)
class EvidenceResult:
    """How high a method ranks the evidence of N inputs, averaged over all orders of equal scores."""

    method: str  # its name, with settings that differ from the defaults, or that of a baseline
    first: tuple[float, ...]  # the probability that the first unit is evidence, (N,)
    first_two: tuple[float, ...]  # the probability that one of the first two is, (N,)
    auroc: tuple[float, ...]  # area under the ROC curve of the scores, (N,)


def load_evidence(path: str | Path, limit: int | None = None) -> list[Known]:
    """Read inputs with their evidence from a JSONL or Parquet file, whose columns are the fields of `Known`.

    Args:
        path: The file.
        limit: How many rows are read at most; None for all.

    Raises:
        DataError: If a row is not such an input.
    """
    return parsed_rows(path, _known, limit=limit)


def _known(row: dict[str, Any]) -> Known:
    """Return a row of a file as an input with its evidence, after checking its types and that it has both."""
    defaults = {field.name: field.default for field in fields(Known)}
    case: Known = check(Known)(defaults | row)
    require(bool(case.evidence), "evidence: expected words of the text, or spans [start, end] of characters")
    require(bool(case.text) != bool(case.messages), "expected a text, or the messages of a chat")
    return case


def evaluate_evidence(
    explainer: Explainer, cases: Sequence[Known], methods: Sequence[Method], on_progress: OnProgress | None = None
) -> tuple[list[EvidenceResult | Refused], dict[str, int]]:
    """Measure how high methods, and rankings that read no model, rank known evidence.

    Args:
        explainer: The model.
        cases: Inputs with what their answers are known to rest on.
        methods: The methods.
        on_progress: Called with the steps; None for none.

    Returns:
        The result of each method, or its refusal, and of each ranking; and how many inputs were measured, and left out
        for each reason.

    Raises:
        DataError: If nothing can be measured.
    """
    judged, left_out = _judged_rows(explainer, cases)
    counts = {"inputs": len(judged), **left_out}
    if not judged:
        raise DataError(f"nothing can be measured: {counts}")
    results = [_measured(explainer, judged, method, on_progress) for method in methods]
    for name, baseline in BASELINES.items():
        scores_of_inputs = [baseline(item) for item in judged]  # (U,) each
        # A baseline that scores all units of each input alike ranks nothing: it is the random one again.
        if name == RANDOM or any(np.ptp(scores) for scores in scores_of_inputs):
            results.append(_result(name, judged, scores_of_inputs))
    return results, counts


def _judged_rows(explainer: Explainer, cases: Sequence[Known]) -> tuple[list[Judged], Counter[str]]:
    """Return the inputs that can be measured, and how many others there are for each reason to leave them out."""
    judged: list[Judged] = []
    left_out = Counter[str]()
    for number, case in enumerate(cases):
        try:
            outcome = _judged(explainer, case)
        except DataError as error:
            raise DataError(f"row {number}: {error}") from None
        if isinstance(outcome, Judged):
            judged.append(outcome)
        else:  # the reason
            left_out[outcome] += 1
    return judged, left_out


def _measured(
    explainer: Explainer, judged: Sequence[Judged], method: Method, on_progress: OnProgress | None
) -> EvidenceResult | Refused:
    """Return how high a method ranks the evidence of inputs; its refusal if it does not work on the model.

    Args:
        explainer: The model.
        judged: The inputs.
        method: The method.
        on_progress: Called with the steps; None for nothing.
    """
    scores_of_inputs = []  # (U,) each
    try:
        for _, item in with_progress(method.spec, judged, on_progress):
            attribution = _explained(explainer, item.case, method, sources=item.case.units)
            score_of_unit = _scores_by_place(attribution, item.case.units)
            scores_of_inputs.append(np.array([score_of_unit[unit] for unit in item.units]))
    except (MethodError, UnsupportedModelError) as error:
        return Refused(method.spec, str(error))
    return _result(method.spec, judged, scores_of_inputs)


def _explained(explainer: Explainer, case: Known, method: str | Method, sources: SourceKind | None) -> Attribution:
    """Explain an input.

    Args:
        explainer: The model.
        case: The input.
        method: The method.
        sources: The kind of the prompt's parts by which a completion is explained as a whole; None for its tokens.
    """
    options: dict[str, Any] = {"contrast": case.contrast, "method": method}
    if case.completion is None:
        explained: Attribution = explainer(case.inputs, target=case.target, **options)
    else:
        explained = explainer.explain_completion(case.inputs, case.completion, sources=sources, **options)
    return explained[0] if explained.completion is None else explained.whole()


def _judged(explainer: Explainer, case: Known) -> Judged | str:
    """Return an input with the units that are ranked, or why it is left out."""
    a = _explained(explainer, case, RANDOM, sources=None)
    if not _answers_with_target(explainer, a, case):
        return "answered otherwise"
    evidence = _places(a, case.evidence)
    units = _ranked_units(a, case)
    if not all(place.overlaps(units) for place in evidence):
        return "evidence not read, or where the answer is read"
    is_evidence = np.array([unit.overlaps(evidence) for unit in units])  # (U,)
    return "nothing but evidence" if is_evidence.all() else Judged(case, a, units, is_evidence)


def _ranked_units(a: Attribution, case: Known) -> list[Place]:
    """Return the units that are ranked: all, or those that the input names, without the token that answers."""
    units = list(_scores_by_place(a, case.units))
    if case.among:
        among = _places(a, case.among)
        units = [unit for unit in units if unit.overlaps(among)]
    if a.reads_at is None or a.offsets is None:
        return units
    answering_token = Place(a.units.sequence[a.reads_at], *a.offsets[a.reads_at])
    return [unit for unit in units if not unit.overlaps([answering_token])]


def _answers_with_target(explainer: Explainer, a: Attribution, case: Known) -> bool:
    """Return whether a model answers with the target, or prefers it to the contrast; True where any answer is taken.

    Args:
        explainer: The model.
        a: A result for the target of the input, by any method.
        case: The input, with its target.
    """
    target = a.target
    # Several tokens are a target without an index.
    if case.completion is not None or case.target is None or target.id is None:
        return True
    if target.contrast_id is None:
        return a.prediction.id == target.id
    model = explainer.task_model
    logits = model.run(model.batch(explainer.encode(case.inputs))).logits[0]  # (C,)
    return bool(logits[target.id] > logits[target.contrast_id])


def _places(a: Attribution, parts: Sequence[Part]) -> list[Place]:
    """Return where parts stand in the texts of an input; a span counts characters of the first.

    Raises:
        DataError: If a part is not in the texts.
    """
    texts = [a.prompt or "", a.text_pair or ""]
    places = list[Place]()
    for part in parts:
        if isinstance(part, str):
            matches = [Place(index, *span) for index, text in enumerate(texts) for span in find_text(text, part)]
        else:
            matches = [Place(0, *part)] if part[0] < part[1] <= len(texts[0]) else []
        if not matches or not part:
            raise DataError(f"{part!r} is not in the text, which has {len(texts[0])} characters")
        places += matches
    return places


def _scores_by_place(a: Attribution, kind: SourceKind) -> dict[Place, float]:
    """Return the score of each unit of a kind by its place."""
    a = a if kind in a.units.kind else a.group(kind)
    # Without spans, as of a tokenizer that cannot tell, there are no places.
    units = zip(a.units.kind, a.units.sequence, a.units.spans or (), a.scores, strict=False)
    return {Place(text, *span): float(score) for unit_kind, text, span, score in units if unit_kind == kind}


def _result(name: str, judged: Sequence[Judged], scores_of_inputs: Sequence[Array]) -> EvidenceResult:
    """Return how high scores, (U,) for each input, rank the evidence of the inputs.

    Args:
        name: The name of the method or of the ranking.
        judged: The N inputs.
        scores_of_inputs: The scores of the units of each input, (U,).
    """
    rankings = [(scores, item.is_evidence) for item, scores in zip(judged, scores_of_inputs, strict=True)]
    return EvidenceResult(
        name,
        first=tuple(found_among(1, *ranking) for ranking in rankings),
        first_two=tuple(found_among(2, *ranking) for ranking in rankings),
        auroc=tuple(auroc(*ranking) for ranking in rankings),
    )


def found_among(count: int, scores: Array, is_evidence: Mask) -> float:
    """Return the probability that evidence is among the units of the highest scores, with ties in random order.

    The units that are tied for the last of the first places are drawn at random without replacement: the probability
    that none of those drawn is evidence is that of the hypergeometric distribution.

    Args:
        count: How many units are first.
        scores: Of the units, (U,).
        is_evidence: Which of them are evidence, (U,).
    """
    count = min(count, len(scores))
    lowest_score = np.sort(scores)[-count]  # of the first units
    is_certain = scores > lowest_score  # (U,): first in every order
    if is_evidence[is_certain].any():
        return 1.0
    is_evidence_of_tied = is_evidence[scores == lowest_score]
    drawn = count - int(is_certain.sum())
    without_evidence = comb(int((~is_evidence_of_tied).sum()), drawn)
    return 1 - without_evidence / comb(len(is_evidence_of_tied), drawn)


def auroc(scores: Array, is_evidence: Mask) -> float:
    """Return the area under the ROC curve: pairs of evidence and another unit in the right order, ties for a half.

    Args:
        scores: Of the units, (U,).
        is_evidence: Which of them are evidence, (U,).
    """
    differences = scores[is_evidence][:, None] - scores[~is_evidence]  # (E, U - E)
    points = (np.sign(differences) + 1) / 2  # (E, U - E): 1 for evidence that is higher, 1/2 for a tie, 0 for lower
    return float(points.mean())


def _rarest(judged: Judged) -> Array:
    """Score units by their highest token id: tokenizers number tokens in the order of frequency."""
    a = judged.tokens
    places = [Place(text, *span) for text, span in zip(a.units.sequence, a.offsets or (), strict=False)]
    highest_ids = []
    for unit in judged.units:
        ids = [token_id or 0 for token_id, place in zip(a.units.ids, places, strict=False) if place.overlaps([unit])]
        highest_ids.append(max(ids))  # a unit that is ranked has a token
    return np.array(highest_ids, np.float64)


def _overlap(judged: Judged) -> Array:
    """Score units by how many of their words stand outside the units, as a question shares words with its answer.

    Each word counts as one divided by the number of units that hold it. Of a pair, the units of the other text are
    outside.
    """
    texts = [judged.tokens.text or "", judged.tokens.text_pair or ""]
    words_of_units = [_words(texts[unit.text or 0][unit.start : unit.end]) for unit in judged.units]
    unit_counts = Counter[str]()  # how many units hold a word
    words_of_texts = _words(" ".join(texts))
    # How often a word stands in both texts, without the units of the text that is the key, as in `Place.text`.
    words_outside: defaultdict[int | None, Counter[str]] = defaultdict(lambda: Counter(words_of_texts))
    for unit, words in zip(judged.units, words_of_units, strict=True):
        unit_counts.update(set(words))
        words_outside[unit.text].subtract(words)
    scores = []
    for unit, words in zip(judged.units, words_of_units, strict=True):
        shared = [word for word in set(words) if words_outside[unit.text][word] > 0]
        scores.append(sum(1 / unit_counts[word] for word in shared))
    return np.array(scores, np.float64)


def _words(text: str) -> list[str]:
    """Return the words of a text in the form in which they are compared, without punctuation marks."""
    words = (text[start:end] for start, end in word_spans(text))
    return [word_key(word) for word in words if any(map(str.isalnum, word))]


RANDOM = "random"

BASELINES: dict[str, Callable[[Judged], Array]] = {
    RANDOM: lambda judged: np.zeros(len(judged.units)),
    "rarest token": _rarest,
    "last": lambda judged: np.arange(len(judged.units), dtype=np.float64),
    "longest": lambda judged: np.array([place.end - place.start for place in judged.units], np.float64),
    "lexical overlap": _overlap,
}
"""Rankings that read no model. Equal scores stand for a random one: every figure is the expected one."""


def evidence_table(results: Sequence[EvidenceResult | Refused], seed: int = 0) -> str:
    """Return a Markdown table with 95% bootstrap intervals over the inputs, the best first; N/A where refused."""
    measured = [result for result in results if isinstance(result, EvidenceResult)]
    measured.sort(key=lambda result: (-np.mean(result.first), -np.mean(result.auroc)))
    rows = []
    for result in measured:
        figures = (result.first, result.first_two, result.auroc)  # (N,) each
        rows.append([result.method, *(interval_text(mean_interval(values, seed)) for values in figures)])
    rows += [[result.method, "N/A", "", ""] for result in results if isinstance(result, Refused)]
    return markdown_table(["method", "evidence first ↑", "among the first two ↑", "AUROC ↑"], rows)
