"""Verify explanations: run the model again without units, one at a time, together, and in ever smaller sets.

Deletion of one part at a time says what the model answers without it (Li et al. 2016, "Understanding Neural Networks
through Representation Erasure"); the smallest set whose removal changes the prediction is found by bisection over the
parts in the order of their measured effects, and made irreducible by putting parts back.
"""

from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from itertools import combinations, product
from numbers import Real
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError, nearest
from ..inputs.encoding import Encoding
from ..model.batch_attempts import batch_attempts
from ..model.task_model import TaskModel
from ..results.attribution import Attribution, representative_layer
from ..results.targets import Prediction
from ..results.units.media import Medium
from ..results.units.spans import check_coarser, groups_of
from ..results.units.units import UnitScore
from ..results.verification import Quantity, Removal, RemovedBy, RemovedUnit, Verification
from ..text.same import comparable, word_key
from .removal import TextRemoval, Tokens

TOUCHED = 0.1
"""Least share of a patch or a moment in a region with which it is left out: a caller rounds the edges of a box."""

SHOWN = 5
"""How many units `verify="auto"` removes one at a time; the command line and the app ask for as many."""

Group = Literal["word", "sentence", "paragraph", "message"]

Named = Group | list[Any] | tuple[Any, ...] | Mapping[str, Any]
"""Units that a caller names, see `units_named`."""

Verify = int | Literal["auto", "reasoning"] | Named | None
"""What is removed one at a time: so many units of the highest scores, "auto" five of them, every unit of a kind, each
sentence of a completion's reasoning, or the units of a list; None for nothing."""


class Together(list[Any]):
    """Units that a caller names, of which only the answer without all of them is wanted."""


class Removable(NamedTuple):
    """The removable parts of an input, and what is measured without them.

    Attributes:
        singles: How many of the parts are removed one at a time, the first ones.
        one_by_one: Whether they are removed one at a time too, and a smallest set and a control looked for.
        among_all: Whether the smallest set is searched for among all parts, if the removed ones change nothing.
        all_together: Whether all parts are removed together, instead of the first ones, and nothing is searched for.
    """

    parts: list[UnitScore]
    unit: RemovedUnit
    removed_by: RemovedBy
    target: str = "the completion"
    quantity: Quantity = "log-probability"
    singles: int = 0
    among_all: bool = False
    named: bool = False
    one_by_one: bool = True
    all_together: bool = False

    @property
    def most(self) -> int:
        """Most parts that are removed together: all, but of a prompt one stays, as a completion of nothing is none."""
        one_stays = self.quantity == "log-probability" and self.one_by_one and not self.all_together
        return len(self.parts) - one_stays


def removable_for_task(model: TaskModel, a: Attribution, verify: Verify = 0) -> Removable:
    """Return the removable parts of an input, those to be removed first.

    The token whose label or prediction is explained is kept, and so is the one at which an answer is read, unless there
    is nothing else to remove, or a caller names it as the last one of a text that is continued.
    """
    a, task = ranked_scores(a), model.task
    fixed = a.target.position if task.position.at == "token" else None
    parts = removable(a, fixed)._replace(
        target=a.target.name, quantity="value" if task.outputs.kind == "value" else "probability"
    )
    return picked(a, parts, verify, None if task.position.left_to_right else fixed)


def picked(a: Attribution, removable: Removable, verify: Verify, fixed: int | None = None) -> Removable:
    """Return removable parts, those to be removed one at a time first: of the highest scores, or the caller's."""
    if not removable.parts:
        return removable
    ranked = sorted(removable.parts, key=lambda part: -part.score)  # stable: ties go to the earlier one
    if verify is None or verify == "auto" or isinstance(verify, int):
        count = verify if isinstance(verify, int) else SHOWN if verify == "auto" else 0
        return removable._replace(parts=ranked, singles=min(count, len(ranked)), among_all=verify == "auto")
    if verify == "reasoning":
        raise InputError("verify='reasoning' leaves out sentences of a completion, and nothing was generated")
    if isinstance(verify, str):
        is_finer = verify == "word" and a.units.kind[0] not in ("token", "word")
        groups = groups_of(a, verify) if a.has_text and not is_finer else []
        if not groups:
            raise InputError(f"there are no {verify}s to leave out: the units are {removable.unit}s")
        check_coarser(a, groups)
        by_tokens = {part.tokens: part for part in removable.parts}
        units = [by_tokens.get(group.tokens) or _unit(a, group.name, group.tokens) for group in groups]
        free = sorted((part for part in units if fixed not in part.tokens), key=lambda part: -part.score)
        return removable._replace(parts=free, singles=len(free), unit=verify)
    named = units_named(a, removable.parts, verify)
    if any(fixed in part.tokens for part in named):
        raise InputError(f"{a.tokens[fixed or 0]!r} cannot be left out: the prediction is read there")
    tokens = {token for part in named for token in part.tokens}
    unnamed = [part for part in ranked if tokens.isdisjoint(part.tokens)]
    items = verify.values() if isinstance(verify, Mapping) else verify
    unit = removable.unit if not a.has_text or all(isinstance(item, str) for item in items) else "part"
    removable = removable._replace(parts=[*named, *unnamed], singles=len(named), unit=unit, named=True)
    return removable._replace(one_by_one=not isinstance(verify, Together))


def units_named(a: Attribution, parts: Sequence[UnitScore], named: Any) -> list[UnitScore]:
    """Return the units of an input that a caller names: words, names of parts, spans, boxes or seconds."""
    pairs = named.items() if isinstance(named, Mapping) else ((_written(item), item) for item in named)
    items = {str(name): item for name, item in pairs}
    places = {name: item for name, item in items.items() if not isinstance(item, str)}
    try:
        groups = {group.name: group for group in groups_of(a, places)} if places else {}
        check_coarser(a, [groups[name] for name in places])
    except InputError as error:
        raise InputError(f"verify takes a count, words, spans and regions to leave out: {error}") from None
    units = []
    for name, item in items.items():
        if isinstance(item, str):
            units.append(_unit(a, name, _tokens_of_words(a, parts, item)))
            continue
        group = groups[name]
        words = "" if isinstance(named, Mapping) or group.kind == "region" else (a.text or "")[group.start : group.end]
        least = min(TOUCHED, max(group.weights, default=0.0))
        weighed = zip(group.tokens, group.weights or (1.0,) * len(group.tokens), strict=True)
        tokens = [token for token, weight in weighed if weight >= least]
        if not tokens:
            raise InputError(f"{name} cannot be left out: the model does not read that part")
        units.append(_unit(a, words.strip() or name, tokens))
    return units


def _written(item: Any) -> str:
    """Return a word, or the numbers of a place as a caller writes them."""
    is_place = isinstance(item, tuple | list | np.ndarray) and all(isinstance(number, Real) for number in item)
    return f"({', '.join(f'{round(float(number), 3):g}' for number in item)})" if is_place else str(item)


def _tokens_of_words(a: Attribution, parts: Sequence[UnitScore], words: str) -> list[int]:
    """Return the tokens of words wherever the same text stands, from the beginning of a word to the end of one."""
    body, tokens = words.strip(), []
    for place, text in enumerate((a.text, a.text_pair)):
        if text is None or not body or not a.has_words or a.units.kind[0] != "token":
            continue
        units = [w for w in a.words(sequence=place) if a.prompt_tokens is None or w.tokens[-1] < a.prompt_tokens]
        starts, ends = {unit.start for unit in units}, {unit.end for unit in units}
        for start, end in comparable(text).find(body, at_words=False):
            if start in starts and end in ends:
                tokens += [t for u in units if start <= u.start < end for t in u.tokens]
    names = [{part.text.strip()} for part in parts]
    if a.units.kind[0] != "token":  # "notes.txt:1" is a source of what is called "notes.txt"
        names = [{name, name.rpartition(":")[0]} for (name,) in names]
    if not tokens:
        key = word_key(body)
        with_name = [part for part, called in zip(parts, names, strict=True) if key in map(word_key, called)]
        tokens = [token for part in with_name for token in part.tokens]
    if not tokens:
        near = nearest(body, set().union(*names))
        hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise InputError(f"there is no {words!r} to leave out{hint}")
    return tokens


def _unit(a: Attribution, name: str, tokens: Sequence[int]) -> UnitScore:
    """Return tokens as one unit, with the space before each word of them if that is a token by itself."""
    members = set(tokens)
    if a.has_words and a.units.kind[0] == "token":
        members |= {token for word in a.words() if word.tokens[-1] in members for token in word.tokens}
    ordered = tuple(sorted(members))
    return UnitScore(name, ordered, float(a.scores.reshape(-1, a.scores.shape[-1])[:, list(ordered)].sum()))


def ranked_scores(a: Attribution) -> Attribution:
    """Return the scores that rank the units: those of the predicted label and of the layer that is drawn at first."""
    if a.has_target_axis:
        predicted = None if not a.predictions else a.predictions[0].id
        a = a[next((k for k, target in enumerate(a.targets) if target.id == predicted), 0)]
    return a if a.layers is None else a.layer(a.layers[representative_layer(a)])


def removable(a: Attribution, fixed: int | None = None) -> Removable:
    """Return the removable parts of an input or a prompt: words (tokens if these are not known), regions, moments."""
    media = {token for medium in a.media for token in medium.tokens}
    end = a.text_units if a.prompt_tokens is None else a.prompt_tokens
    parts = [part for part in (text_parts(a) if a.has_text else []) if part.text.strip()]
    parts = [part for part in parts if part.tokens[-1] < end and media.isdisjoint(part.tokens)]
    words = [part for part in parts if fixed not in part.tokens] or parts
    kinds: list[Removable] = []
    if words:
        kinds.append(Removable(words, "word" if a.has_words else "token", "deleted"))
    of_media: dict[tuple[RemovedUnit, RemovedBy], list[Medium]] = {}
    for medium in a.scored_media:
        of_media.setdefault(medium.removed_unit, []).append(medium)
    kinds += [Removable(_named(media), unit, how) for (unit, how), media in of_media.items()]
    if len(kinds) == 1:
        return kinds[0]
    of_kinds = kinds[1:] if words else kinds
    named = {part.tokens: f"{kind.unit} {part.text}" for kind in of_kinds for part in kind.parts}
    parts = [part._replace(text=named.get(part.tokens, part.text)) for kind in kinds for part in kind.parts]
    return Removable(parts, "part", "removed")


def _named(media: Sequence[Medium]) -> list[UnitScore]:
    """Return the removable parts of media of a kind; of several each says whose it is."""
    endings = [f" of {medium.name}" if len(media) > 1 else "" for medium in media]
    pairs = zip(media, endings, strict=True)
    return [part._replace(text=part.text + ending) for medium, ending in pairs for part in medium.removable()]


def text_parts(a: Attribution) -> list[UnitScore]:
    """Return the words of a text, or its tokens where words are not known."""
    if a.has_words:
        return a.words()
    plain = [i for i, special in enumerate(a.units.special) if not special and a.units.kind[i] == "token"]
    return [UnitScore(a.tokens[i], (i,), float(a.scores[i])) for i in plain]


Key = TypeVar("Key", bound=Hashable)
Outcome = TypeVar("Outcome")

INPUTS_AT_ONCE = 2048
"""Most inputs in memory."""

Progress = Callable[[int], AbstractContextManager[Callable[[float], Any]]]
"""Shows the progress of a number of steps; the function that it yields adds some."""


def no_progress(total: int) -> AbstractContextManager[Callable[[float], Any]]:
    """Show nothing."""
    return nullcontext(lambda advance: None)


class Answer(NamedTuple):
    """The model's answer to an input; the prediction changed if the outcome did, which is None of values."""

    prediction: Prediction | None
    value: float
    outcome: Hashable
    logits: Tensor | None = None  # (C,), of a text that is classified as a whole, or of a window
    values: tuple[float, ...] = ()


class Outcomes(Generic[Key, Outcome]):
    """A table from what is removed of an input to what is measured without it; each is asked about once."""

    def __init__(
        self,
        ask: Callable[[list[Key]], Iterable[tuple[Key, Outcome]]],
        progress: Progress = no_progress,
        known: Mapping[Key, Outcome] | None = None,
    ) -> None:
        self._ask, self._progress, self._known = ask, progress, dict(known or {})

    def __call__(self, removals: Iterable[Key]) -> list[Outcome]:
        """Return the outcomes of removals, in their order."""
        removals = list(removals)
        unknown = [removal for removal in dict.fromkeys(removals) if removal not in self._known]
        with self._progress(len(unknown)) as advance:
            for removal, outcome in self._ask(unknown) if unknown else ():
                self._known[removal] = outcome
                advance(1)
        return [self._known[removal] for removal in removals]


def in_batches(
    model: TaskModel,
    without: Callable[[Key], Encoding],
    measure: Callable[[list[Encoding], list[Key]], Iterable[Outcome]],
) -> Callable[[list[Key]], Iterator[tuple[Key, Outcome]]]:
    """Return a function that measures, in batches, the inputs that are left after removals, for `Outcomes`."""

    def ask(removals: list[Key]) -> Iterator[tuple[Key, Outcome]]:
        for start in range(0, len(removals), INPUTS_AT_ONCE):
            some = removals[start : start + INPUTS_AT_ONCE]
            inputs = [without(removal) for removal in some]
            groups: dict[Hashable, list[int]] = {}  # signals of one shape are read together; texts are padded
            for place, encoding in enumerate(inputs):
                groups.setdefault(encoding.signal and encoding.signal.shapes, []).append(place)
            for group in groups.values():
                for attempt in batch_attempts(model, [inputs[place] for place in group]):
                    measured: list[tuple[Key, Outcome]] = []
                    with attempt as members, torch.inference_mode():
                        places = [group[member] for member in members]
                        batch = [some[place] for place in places]
                        measured += zip(batch, measure([inputs[place] for place in places], batch), strict=True)
                    yield from measured  # outside inference mode, which would reach the caller

    return ask


PAIRED = 20
"""Units of the highest scores among which a pair is searched for, in at most 20 + 29 + 20 passes, see `_pair`."""

PAIRS = 20
"""Most pairs that are removed, all those of two groups."""

SIDE = 5
"""Most units in a group that is removed together; a prime, whose square is at least `PAIRED`."""

Search = Generator[list[Tokens], list[Answer], Verification]
"""A coroutine that yields sets of tokens, receives the answers without each, and returns the verification."""

SetSearch = Generator[list[Tokens], list[Answer], tuple[list[int], Answer] | None]
"""A part of a search that returns a set of parts with the answer without it; None if there is none."""


def run_searches(
    results: Sequence[Attribution],
    removables: Sequence[Removable],
    answers: Callable[[list[TextRemoval]], Iterable[Answer]],
) -> list[Attribution]:
    """Verify results in step, so that the inputs they ask for share batches; note where nothing can be removed."""
    searches = {place: search(removable) for place, removable in enumerate(removables) if removable.most > 0}
    note = "not verified: there is nothing that could be removed, or nothing would be left"
    verified = [replace(result, notes=(*result.notes, note)) for result in results]
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


def search(units: Removable) -> Search:
    """Yield the parts to remove: the first ones together and alone, and as many others as a control."""
    parts, first = units.parts, list(range(units.singles))
    alone = first if units.one_by_one else []
    # Each yield sends lists of tokens to remove, and receives the model's answers without them.
    together = list(range(len(parts))) if units.all_together else first[: units.most]
    original, without_all, *answers = yield [(), _tokens(parts, together), *[_tokens(parts, [i]) for i in alone]]
    single = dict(zip(alone, answers, strict=True))
    smallest = control = None
    if single and not units.all_together:
        smallest = yield from _changing_set(units, original, without_all, single)
        control = yield from _control(parts, first, smallest and smallest[0])
    return Verification(
        target=units.target,
        quantity=units.quantity,
        unit=units.unit,
        removed_by=units.removed_by,
        original=_removal(units, [], original, original),
        single=tuple(_removal(units, [i], answer, original) for i, answer in single.items()),
        together=_removal(units, together, without_all, original),
        smallest=None if smallest is None else _removal(units, *smallest, original),
        control=None if control is None else _removal(units, *control, original),
        named=units.named,
    )


def _changing_set(units: Removable, original: Answer, together: Answer, single: dict[int, Answer]) -> SetSearch:
    """Find a small set of parts whose removal changes the prediction: one, a beginning of the ranking, or a pair."""
    by_effect = sorted(single, key=lambda i: single[i].value)
    changing = next((i for i in by_effect if single[i].outcome != original.outcome), None)
    if changing is not None:
        return [changing], single[changing]
    if original.outcome is None:  # predictions are values
        return None
    untested = range(len(single), len(units.parts)) if units.among_all else ()
    smallest = yield from _smallest(units.parts, [*by_effect, *untested], original, (len(single), together))
    if units.among_all and (smallest is None or len(smallest[0]) > 2):
        pair = yield from _pair(units.parts, original, single)
        smallest = pair or smallest
    return smallest


def _control(parts: Sequence[UnitScore], first: Sequence[int], smallest: Sequence[int] | None) -> SetSearch:
    """Remove as many other parts as the smallest set has, or as the first ones are, drawn at random."""
    size = len(first if smallest is None else smallest)
    others = [i for i in range(len(first), len(parts)) if smallest is None or i not in smallest]
    words = [i for i in others if any(map(str.isalnum, parts[i].text))]  # punctuation is a weak control
    if len(words) < size:
        return None
    control = [words[i] for i in np.random.default_rng(0).permutation(len(words))[:size]]
    (answer,) = yield [_tokens(parts, control)]
    return control, answer


def _pair(parts: Sequence[UnitScore], original: Answer, single: dict[int, Answer]) -> SetSearch:
    """Find two of the first parts, or one, whose removal changes the prediction.

    What two parts do together need not be what they do alone, so it is measured: groups of parts are removed, such that
    every two are together in one of the groups (at most 29 of up to five). Then the pairs are removed whose group
    leaves least of the answer, at most `PAIRS`; of one group, first those that do most alone.
    """
    first = range(min(PAIRED, len(parts)))
    unknown = [i for i in first if i not in single]
    groups = _groups_with_each_pair(len(first))
    answers = yield [_tokens(parts, members) for members in [*([i] for i in unknown), *groups]]
    single |= dict(zip(unknown, answers, strict=False))
    left = [answer.value for answer in answers[len(unknown) :]]
    pairs = [
        pair
        for _, group in sorted(zip(left, groups, strict=True))
        for pair in sorted(combinations(group, 2), key=lambda pair: single[pair[0]].value + single[pair[1]].value)
    ][:PAIRS]
    answers = yield [_tokens(parts, pair) for pair in pairs]
    found = [([i], single[i]) for i in unknown] + [(list(p), a) for p, a in zip(pairs, answers, strict=True)]
    return next(((members, a) for members, a in found if a.outcome != original.outcome), None)


def _groups_with_each_pair(count: int) -> list[list[int]]:
    """Return groups of at most `SIDE` of some parts, such that every two are together in exactly one.

    They are the lines of the affine plane over the integers modulo `SIDE`, whose points are the parts.
    """
    lines = [[i for i in range(count) if i % SIDE == column] for column in range(SIDE)]
    for slope, shift in product(range(SIDE), repeat=2):
        lines.append([i for i in range(count) if i // SIDE == (slope * (i % SIDE) + shift) % SIDE])
    return [line for line in lines if len(line) > 1]


def _smallest(
    parts: Sequence[UnitScore], ranked: Sequence[int], original: Answer, first: tuple[int, Answer]
) -> SetSearch:
    """Find a set of parts whose removal changes the prediction, and no part of which can be put back.

    The shortest beginning of a ranking is found by bisection, as if longer ones changed the prediction too. Then the
    parts that can be put back are ranked by what they leave when they are, and the shortest beginning is found again.
    `first` is how many were removed together, and the answer without them; no part changes it alone.
    """
    lower, (upper, answer) = 1, first
    if answer.outcome == original.outcome and upper > 2:  # fewer may change the prediction even if all do not
        shorter = range(2, upper)
        answers = yield [_tokens(parts, ranked[:count]) for count in shorter]
        changed = [(count, a) for count, a in zip(shorter, answers, strict=True) if a.outcome != original.outcome]
        lower, upper, answer = (changed[0][0] - 1, *changed[0]) if changed else (lower, upper, answer)
    while answer.outcome == original.outcome:
        if upper == len(ranked):
            return None
        lower, upper = upper, min(2 * upper, len(ranked))
        (answer,) = yield [_tokens(parts, ranked[:upper])]
    while True:
        while upper - lower > 1:
            middle = (lower + upper) // 2
            (tried,) = yield [_tokens(parts, ranked[:middle])]
            if tried.outcome == original.outcome:
                lower = middle
            else:
                upper, answer = middle, tried
        members = ranked[:upper]
        answers = yield [_tokens(parts, [i for i in members if i != back]) for back in members]
        without = {i: a for i, a in zip(members, answers, strict=True) if a.outcome != original.outcome}
        if not without:
            return list(members), answer
        by_need = sorted(without, key=lambda i: -without[i].value)  # the last is put back first
        ranked = [*(i for i in members if i not in without), *by_need]
        lower, upper, answer = len(members) - len(without) - 1, len(members) - 1, without[by_need[-1]]


def _tokens(parts: Sequence[UnitScore], members: Sequence[int]) -> Tokens:
    return tuple(sorted({token for i in members for token in parts[i].tokens}))


def _removal(units: Removable, members: Sequence[int], answer: Answer, original: Answer) -> Removal:
    parts, changed = units.parts, answer.outcome != original.outcome
    names = tuple(parts[i].text for i in sorted(members, key=lambda i: parts[i].tokens))
    answered, tokens = (answer.prediction, answer.value, changed), _tokens(parts, members)
    return Removal(names, tokens, *answered, units.quantity, original.value, answer.values)
