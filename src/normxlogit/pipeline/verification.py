"""Verify explanations: run the model again without the units of the highest scores.

Deletion of one part at a time says what the model answers without it (Li et al. 2016, "Understanding Neural Networks
through Representation Erasure"); the smallest set whose removal changes the prediction is found by bisection over the
parts in the order of their measured effects, and made irreducible by putting parts back.
"""

from collections.abc import Callable, Generator, Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np
import torch

from ..inputs.encoding import Encoding
from ..methods.perturbation import PerturbedAnswers
from ..model.forward_pass import ForwardPass, to_host
from ..model.masking import moved_position, remove_tokens
from ..model.task_model import TaskModel
from ..results.attribution import Attribution
from ..results.layers import representative_layer
from ..results.targets import Prediction
from ..results.units.media import Medium
from ..results.units.words import UnitScore
from ..results.verification import Quantity, Removal, RemovedBy, RemovedUnit, Verification

NOT_VERIFIED = "not verified: it was read in several windows"

HOLDS = 0.5
"""The probability from which on a label holds, where labels do not exclude each other."""

REGIONS = 8
"""Most regions of a picture in a row or a column, as a single small patch seldom has an effect."""

MOMENT = 0.25
"""Least duration, in seconds, of a part of a sound that is silenced."""

SHOWN = 5
"""How many units `verify="auto"` removes one at a time; the command line and the app ask for as many."""

Tokens = tuple[int, ...]


class Removable(NamedTuple):
    """The removable parts of an input, and what is measured without them.

    Attributes:
        parts: The parts with their scores.
        unit: Their kind.
        removed_by: How they are removed.
        target: The name of what is explained.
        quantity: The measured quantity.
    """

    parts: list[UnitScore]
    unit: RemovedUnit
    removed_by: RemovedBy
    target: str = "the completion"
    quantity: Quantity = "log-probability"


class Answer(NamedTuple):
    """The model's answer to an input.

    Attributes:
        value: The measured quantity.
        outcome: What is compared to decide whether the prediction changed; None if predictions are values.
    """

    prediction: Prediction | None
    value: float
    outcome: Hashable


Search = Generator[list[Tokens], list[Answer], Verification]
"""A coroutine that yields sets of tokens, receives the answers without each, and returns the verification."""


def with_verifications(
    model: TaskModel, encodings: Sequence[Encoding], results: Sequence[Attribution], verify: int | Literal["auto"]
) -> list[Attribution]:
    """Return results with the model's answers without the units of the highest scores.

    Args:
        model: The model that was explained.
        encodings: The encoding of each result's input.
        results: The results.
        verify: How many units are removed.
    """
    limit, verified = model.encoder.limit, list(results)
    groups: dict[Hashable, list[int]] = {}  # signals of one shape are read together; texts are padded
    for place, encoding in enumerate(encodings):
        if limit is not None and len(encoding) > limit:
            verified[place] = _with_note(results[place], NOT_VERIFIED)
        else:
            groups.setdefault(encoding.signal and encoding.signal.shapes, []).append(place)
    for places in groups.values():
        group = [results[place] for place in places]
        answers = AnswersWithout(model, [encodings[place] for place in places], group)
        removables = [removable_for_task(model, a) for a in group]
        for place, result in zip(places, run_searches(group, removables, verify, answers), strict=True):
            verified[place] = result
    return verified


def removable_for_task(model: TaskModel, a: Attribution) -> Removable:
    """Return the removable parts of an input.

    The token whose label or prediction is explained is kept, and so is the one at which an answer is read, unless there
    is nothing else to remove.
    """
    a = ranked_scores(a)
    fixed = a.target.position if model.task.answers_at_token else None
    return removable(a, fixed)._replace(target=a.target.name, quantity=model.task.measured)


def ranked_scores(a: Attribution) -> Attribution:
    """Return the scores that rank the units: those of the predicted label and of the layer that is drawn at first."""
    if a.has_target_axis:
        predicted = None if not a.predictions else a.predictions[0].id
        a = a[next((k for k, target in enumerate(a.targets) if target.id == predicted), 0)]
    return a if a.layers is None else a.layer(a.layers[representative_layer(a)])


class AnswersWithout(PerturbedAnswers[tuple[int, Tokens], Answer]):
    """A model's answers to inputs without some of their tokens.

    Args:
        model: The model.
        encodings: The encodings of the inputs.
        results: Their explanations, which say what is measured.
        masked: Whether words are masked; by default they are deleted.
    """

    def __init__(
        self, model: TaskModel, encodings: Sequence[Encoding], results: Sequence[Attribution], *, masked: bool = False
    ) -> None:
        self._results, self._masked = [ranked_scores(a) for a in results], masked
        at_token = model.task.answers_at_token and not model.task.left_to_right
        self._encodings = [
            replace(encoding, position=result.target.position) if at_token else encoding
            for encoding, result in zip(encodings, self._results, strict=True)
        ]
        super().__init__(model, self._without, self._answers)

    def _without(self, key: tuple[int, Tokens]) -> Encoding:
        place, removed = key
        encoding = self._encodings[place]
        if not removed:
            return encoding
        without = remove_tokens(self.model, encoding, removed, masked=self._masked)
        if encoding.position is None:
            return without
        return replace(without, position=moved_position(self.model, encoding.position, removed, masked=self._masked))

    def _answers(self, encodings: list[Encoding], keys: list[tuple[int, Tokens]]) -> Iterable[Answer]:
        task = self.model.task
        run = self.model.run(self.model.batch(encodings, list(range(len(encodings)))))
        if task.extractive:
            values = [self._position_probability(run, row, *key) for row, key in enumerate(keys)]
            return [Answer(p, value, p.label) for p, value in zip(task.answers(run), values, strict=True)]
        probabilities = task.probabilities(run.logits)  # (B, C)
        outputs = run.logits if probabilities is None else probabilities  # (B, C)
        targets = torch.tensor([[self._results[place].target.id] for place, _ in keys], device=outputs.device)  # (B, 1)
        explained = outputs.gather(1, targets)  # (B, 1)
        # Where labels do not exclude each other, the answer is read from the explained label's own output.
        top = task.top(run.logits, None if task.outcomes == "exclusive" else targets)  # (B, 3)
        top, measured = to_host(top, explained)
        self.model.check_finite(measured, run.batch)
        return [
            Answer(prediction, float(value), self._outcome(prediction))
            for prediction, value in zip(task.describe(top), measured[:, 0].tolist(), strict=True)
        ]

    def _outcome(self, prediction: Prediction) -> Hashable:
        """Return what is compared to decide whether a prediction changed; None if predictions are values.

        It is the label. Where labels do not exclude each other, it is whether the label's probability reaches `HOLDS`.
        """
        if self.model.task.outcomes is None:
            return None
        if self.model.task.outcomes == "exclusive":
            return prediction.id
        return prediction.probability is not None and prediction.probability >= HOLDS

    def _position_probability(self, run: ForwardPass, row: int, place: int, removed: Tokens) -> float:
        """Return the probability that the answer starts (or ends) at the explained token; 0 if that is removed."""
        target = self._results[place].target
        if run.logits_by_position is None or target.position is None or target.position in removed:
            return 0.0
        position = target.position if self._masked else target.position - sum(i < target.position for i in removed)
        probabilities = run.logits_by_position[row].float()[run.batch.mask[row]].softmax(0)  # (T, 2)
        return float(probabilities[position, target.id or 0])


def run_searches(
    results: Sequence[Attribution],
    removables: Sequence[Removable],
    verify: int | Literal["auto"],
    answers: Callable[[list[tuple[int, Tokens]]], Iterable[Answer]],
) -> list[Attribution]:
    """Verify results in step, so that the inputs they ask for share batches; note where nothing can be removed.

    Args:
        results: The results.
        removables: What can be removed of the input of each.
        verify: How many parts are removed.
        answers: Returns the answers to inputs, by their places, without some of their tokens.
    """
    count, everything = (SHOWN, True) if verify == "auto" else (verify, False)
    searches = {place: search(r, count, everything) for place, r in enumerate(removables) if r.parts}
    verified = [_with_note(result, "not verified: there is nothing that could be removed") for result in results]
    pending = {place: next(running) for place, running in searches.items()}
    while pending:
        replies = iter(answers([(place, tokens) for place, sets in pending.items() for tokens in sets]))
        requested = {}
        for place, sets in pending.items():
            try:
                requested[place] = searches[place].send([next(replies) for _ in sets])
            except StopIteration as stop:  # noqa: PERF203  # its value is the verification
                verified[place] = replace(results[place], verified=stop.value)
        pending = requested
    return verified


def search(removable_units: Removable, count: int, everything: bool) -> Search:
    """Yield the parts to remove: those of the highest scores, alone and together, and as many others as a control.

    Args:
        removable_units: The removable parts.
        count: How many are removed one at a time.
        everything: Whether the smallest set is searched for among all parts, if the removed ones do not change the
            prediction.
    """
    parts = removable_units.parts
    order = sorted(range(len(parts)), key=lambda i: -parts[i].score)  # stable: ties go to the earlier one
    removed, others = order[:count], order[count:]
    # Each yield sends lists of tokens to remove, and receives the model's answers without them.
    original, together, *single = yield [(), _tokens(parts, removed), *[_tokens(parts, [i]) for i in removed]]

    def removal(members: Sequence[int], answer: Answer) -> Removal:
        names = tuple(parts[i].text for i in sorted(members))
        changed = answer.outcome != original.outcome
        return Removal(names, _tokens(parts, members), answer.prediction, answer.value, changed)

    by_effect = sorted(zip(removed, single, strict=True), key=lambda pair: pair[1].value)
    alone = [([i], answer) for i, answer in by_effect if answer.outcome != original.outcome]
    smallest = alone[0] if alone else None
    if not alone and original.outcome is not None:  # there is no outcome where predictions are values
        ranked = [i for i, _ in by_effect] + (others if everything else [])
        smallest = yield from _smallest(parts, ranked, original, (len(removed), together))
    size = len(removed if smallest is None else smallest[0])
    untouched = [i for i in others if smallest is None or i not in smallest[0]]
    words = [i for i in untouched if any(map(str.isalnum, parts[i].text))]  # punctuation is a weak control
    control = None
    if len(words) >= size:
        control_parts = [words[i] for i in np.random.default_rng(0).permutation(len(words))[:size]]
        (answer,) = yield [_tokens(parts, control_parts)]
        control = removal(control_parts, answer)
    return Verification(
        target=removable_units.target,
        quantity=removable_units.quantity,
        unit=removable_units.unit,
        removed_by=removable_units.removed_by,
        original=removal([], original),
        single=tuple(removal([i], answer) for i, answer in zip(removed, single, strict=True)),
        together=removal(removed, together),
        smallest=None if smallest is None else removal(*smallest),
        control=control,
    )


def _smallest(
    parts: Sequence[UnitScore], ranked: Sequence[int], original: Answer, first: tuple[int, Answer]
) -> Generator[list[Tokens], list[Answer], tuple[list[int], Answer] | None]:
    """Find a set of parts whose removal changes the prediction, and no part of which can be put back.

    The shortest beginning of a ranking is found by bisection, as if longer ones changed the prediction too; then parts
    are put back one at a time while the prediction stays changed.

    Args:
        parts: The removable parts.
        ranked: The parts by the effect that they had alone, and others by their scores; no part changes it alone.
        original: The answer to the whole input.
        first: How many were removed together, and the answer without them.
    """
    lower, (upper, answer) = 1, first
    if (
        answer.outcome == original.outcome and upper > 2
    ):  # fewer parts may change the prediction even if all together do not
        shorter = range(2, upper)
        answers = yield [_tokens(parts, ranked[:count]) for count in shorter]
        changed = [(count, a) for count, a in zip(shorter, answers, strict=True) if a.outcome != original.outcome]
        lower, upper, answer = (changed[0][0] - 1, *changed[0]) if changed else (lower, upper, answer)
    while answer.outcome == original.outcome:
        if upper == len(ranked):
            return None
        lower, upper = upper, min(2 * upper, len(ranked))
        (answer,) = yield [_tokens(parts, ranked[:upper])]
    while upper - lower > 1:
        middle = (lower + upper) // 2
        (tried,) = yield [_tokens(parts, ranked[:middle])]
        if tried.outcome == original.outcome:
            lower = middle
        else:
            upper, answer = middle, tried
    members = list(ranked[:upper])
    while True:
        fewer = [[i for i in members if i != back] for back in members]
        answers = yield [_tokens(parts, some) for some in fewer]
        still_changed = [(some, a) for some, a in zip(fewer, answers, strict=True) if a.outcome != original.outcome]
        if not still_changed:
            return members, answer
        members, answer = min(still_changed, key=lambda pair: pair[1].value)


def _tokens(parts: Sequence[UnitScore], members: Sequence[int]) -> Tokens:
    return tuple(sorted(token for i in members for token in parts[i].tokens))


def _with_note(result: Attribution, note: str) -> Attribution:
    return replace(result, notes=(*result.notes, note))


# --- what can be removed at a time: words or tokens, regions of pictures, moments of sounds --------------------------


def removable(a: Attribution, fixed: int | None = None) -> Removable:
    """Return the removable parts of an input: words, or tokens if words are not known; regions; moments.

    Args:
        a: The explanation, with one score for each unit.
        fixed: A token that stays, unless there is nothing else.
    """
    parts = with_spaces_before(text_parts(a)) if a.has_text else []
    return with_media_parts(a, [part for part in parts if fixed not in part.tokens] or parts)


def with_media_parts(a: Attribution, words: Sequence[UnitScore]) -> Removable:
    """Return words and the parts of the pictures and sounds beside them as what can be removed.

    Args:
        a: The explanation; of several targets or answers the sum of the scores counts.
        words: The words of its text, or tokens where words are not known.
    """
    kinds: list[Removable] = []
    if words:
        kinds.append(Removable(list(words), "word" if a.has_words else "token", "deleted"))
    if a.images:
        kinds.append(Removable(_named(a.images, _regions), "region", "replaced"))
    if a.audio:
        kinds.append(Removable(_named(a.audio, removable_moments), "moment", "silenced"))
    if len(kinds) == 1:
        return kinds[0]
    parts = [
        part._replace(text=f"{unit} {part.text}") if unit in ("region", "moment") else part
        for parts_of_kind, unit, *_ in kinds
        for part in parts_of_kind
    ]
    return Removable(parts, "part", "removed")


def _named(media: Sequence[Medium], parts_of: Callable[[Medium], list[UnitScore]]) -> list[UnitScore]:
    """Return the parts of pictures, or of sounds; of several each says whose it is."""
    names = [medium.name for medium in media]
    if len(set(names)) < len(names):
        names = [f"{medium.kind} {number}" for number, medium in enumerate(media, 1)]
    endings = [f" of {name}" if len(names) > 1 else "" for name in names]
    return [
        part._replace(text=part.text + ending)
        for medium, ending in zip(media, endings, strict=True)
        for part in parts_of(medium)
    ]


def text_parts(a: Attribution) -> list[UnitScore]:
    """Return the words of a text, or its tokens where words are not known."""
    if a.has_words:
        return a.words()
    plain = [i for i, special in enumerate(a.units.special) if not special and a.units.kind[i] == "token"]
    return [UnitScore(a.tokens[i], (i,), float(a.scores[i])) for i in plain]


def with_spaces_before(parts: Sequence[UnitScore]) -> list[UnitScore]:
    """Return the parts that are not white space, each with the space before it, if that is a token by itself.

    Most tokenizers of language models write a space before a number as such a token. If it were left behind when the
    number is removed, two spaces would follow each other.
    """
    visible: list[UnitScore] = []
    spaces: tuple[int, ...] = ()
    for part in parts:
        if part.text.strip():
            visible.append(part._replace(tokens=(*spaces, *part.tokens)))
        spaces = part.tokens if part.text and not part.text.strip(" ") else ()
    return visible


def _regions(image: Medium) -> list[UnitScore]:
    """Return squares of patches, at most `REGIONS` in a row or column."""
    side = -(-max(image.shape) // REGIONS)
    groups: dict[tuple[int, int], list[int]] = {}
    for patch, (row, column) in enumerate(np.ndindex(*image.shape)):
        groups.setdefault((row // side, column // side), []).append(patch)
    last = side - 1
    return [
        UnitScore(
            f"{row * side},{column * side}" + (f" to {row * side + last},{column * side + last}" if last else ""),
            tuple(image.first + patch for patch in patches),
            _sum(image, patches),
        )
        for (row, column), patches in groups.items()
    ]


def removable_moments(sound: Medium) -> list[UnitScore]:
    """Return moments of `MOMENT` seconds, or of one frame if frames are longer.

    Args:
        sound: A sound with scores of its frames; of several answers their sum counts.
    """
    groups: dict[int, list[int]] = {}
    for frame, (start, end) in enumerate(sound.times.tolist()):
        if end > start:
            groups.setdefault(int((start + end) / 2 / MOMENT), []).append(frame)
    parts = []
    for frames in groups.values():
        times = sound.times[frames]  # (n, 2)
        name = f"{times[:, 0].min():.2f}-{times[:, 1].max():.2f} s"
        parts.append(UnitScore(name, tuple(sound.first + frame for frame in frames), _sum(sound, frames)))
    return parts


def _sum(medium: Medium, parts: Sequence[int]) -> float:
    units = medium.scores.reshape(-1, int(np.prod(medium.shape)))  # (answers, units)
    return float(units[:, parts].sum())
