"""Which parts of an input are left out: those of the highest scores, all of a kind, or those that a caller names."""

from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any, Literal

import numpy as np

from ..errors import InputError, nearest
from ..model.task_model import TaskModel
from ..results.attribution import Attribution
from ..results.units.grouping import check_coarser, groups_of
from ..results.units.spans import NamedSpan
from ..results.units.units import UnitScore
from ..text.same import comparable, word_key
from .removable import Removable, ranked_scores, removable

LEAST_WEIGHT = 0.1
"""Least share of a patch or a moment in a region with which it is left out: a caller rounds the edges of a box."""

AUTO = 5
"""How many units `verify="auto"` removes one at a time; the command line and the app ask for as many."""

Group = Literal["word", "sentence", "paragraph", "message"]

Items = Mapping[str, Any]
"""Words, spans, boxes or seconds, by name."""

Named = Group | list[Any] | tuple[Any, ...] | Items
"""Units that a caller names, see `units_named`."""

Verify = int | Literal["auto", "reasoning"] | Named | None
"""What is removed one at a time: so many units of the highest scores, "auto" five of them, every unit of a kind, each
sentence of a completion's reasoning, or the units of a list; None for nothing."""


class Together(list[Any]):
    """Units that a caller names, which are removed all at once: nothing is asked of each alone."""

    @classmethod
    def of(cls, units: Any) -> "Together":
        """Return the units that a caller names.

        Args:
            units: A word, a span, a box or seconds; a list of them; or a mapping from the caller's names to them, of
                which nothing is said, as no unit has an answer of its own.
        """
        if isinstance(units, Mapping):
            return cls(units.values())
        is_single = isinstance(units, str) or _is_place(units)
        return cls([units] if is_single else units)


def removable_for_task(model: TaskModel, a: Attribution, verify: Verify = 0) -> Removable:
    """Return the removable parts of an input, those to be removed first.

    The token whose label or prediction is explained is kept, and so is the one at which an answer is read, unless there
    is nothing else to remove, or a caller names it as the last one of a text that is continued.

    Args:
        model: The model.
        a: The result whose units are left out.
        verify: What the caller asked for.
    """
    a, task = ranked_scores(a), model.task
    fixed = task.position.token_of(a.target)  # the index of the token whose answer is explained; None for none
    quantity: Literal["value", "probability"] = "value" if task.outputs.kind == "value" else "probability"
    parts = removable(a, fixed)._replace(target=a.target.name, quantity=quantity, may_be_empty=True)
    # A text that is continued is read at its last token, whichever that is: a caller may leave this one out.
    fixed_for_caller = None if task.position.left_to_right else fixed
    return picked(a, parts, verify, fixed_for_caller)


def picked(a: Attribution, removable: Removable, verify: Verify, fixed: int | None = None) -> Removable:
    """Return removable parts, those to be removed one at a time first.

    Args:
        a: The result whose units are left out.
        removable: The parts that can be left out.
        verify: What the caller asked for.
        fixed: A token that cannot be left out.

    Raises:
        InputError: If there are no such units.
    """
    # `run_searches` notes that there is nothing, whatever was asked for.
    if not removable.parts:
        return removable
    if verify is None or isinstance(verify, int):
        return _picked_by_score(removable, int(verify or 0))
    if verify == "auto":
        return _picked_by_score(removable, AUTO)._replace(among_all=True)
    if verify == "reasoning":
        raise InputError("verify='reasoning' leaves out sentences of a completion, and nothing was generated")
    if isinstance(verify, str):
        return _picked_by_kind(a, removable, verify, fixed)
    return _picked_by_name(a, removable, verify, fixed)


def _by_score(parts: Iterable[UnitScore]) -> list[UnitScore]:
    """Return parts by their scores, the highest first; ties go to the earlier one."""
    return sorted(parts, key=lambda part: -part.score)


def _picked_by_score(removable: Removable, count: int) -> Removable:
    """Put the parts of the highest scores first, so many to be removed one at a time."""
    parts = _by_score(removable.parts)
    return removable._replace(parts=parts, singles=min(count, len(parts)))


def _picked_by_kind(a: Attribution, removable: Removable, kind: Group, fixed: int | None) -> Removable:
    """Take all units of a kind as the parts, to be removed one at a time, but for the one with the fixed token."""
    groups = groups_of(a, kind) if _may_have(a, kind) else []
    if not groups:
        raise InputError(f"there are no {kind}s to leave out: the units are {removable.unit}s")
    check_coarser(a, groups)
    part_of_tokens = {part.tokens: part for part in removable.parts}  # a part has its own name and score
    units = [part_of_tokens.get(group.tokens) or _unit(a, group.name, group.tokens) for group in groups]
    # Without a fixed token, None, all units stay.
    parts = _by_score(unit for unit in units if fixed not in unit.tokens)
    return removable._replace(parts=parts, singles=len(parts), unit=kind)


def _may_have(a: Attribution, kind: Group) -> bool:
    """Return whether units of a kind can be made of those that have scores: of sentences or sources, no words can."""
    # The units of a text come first and are of one kind, which the first one tells.
    return a.has_text and (kind != "word" or a.units.kind[0] in ("token", "word"))


def _picked_by_name(
    a: Attribution, removable: Removable, named: list[Any] | tuple[Any, ...] | Items, fixed: int | None
) -> Removable:
    """Put the units that the caller names first; the others stay for the control."""
    units = units_named(a, removable.parts, named)
    if any(fixed in unit.tokens for unit in units):
        # `or 0` is for the type checker: None is in no unit.
        raise InputError(f"{a.tokens[fixed or 0]!r} cannot be left out: the prediction is read there")
    tokens = {token for unit in units for token in unit.tokens}
    others = [part for part in _by_score(removable.parts) if tokens.isdisjoint(part.tokens)]
    # A span of a text may be anything; words of a text are words, and boxes of a picture are regions.
    is_any_span = a.has_text and bool(_places_named(_items_by_name(named)))
    return removable._replace(
        parts=[*units, *others],
        singles=len(units),
        unit="part" if is_any_span else removable.unit,
        named=True,
        one_by_one=not isinstance(named, Together),
    )


def units_named(a: Attribution, parts: Sequence[UnitScore], named: Any) -> list[UnitScore]:
    """Return the units of an input that a caller names.

    Args:
        a: The result whose units they are.
        parts: The removable parts, whose names are names too.
        named: Words, names of parts, spans, boxes or seconds, in a list or by names of the caller's.

    Raises:
        InputError: If there is no such unit, or the model does not read it.
    """
    items = _items_by_name(named)
    group_of_name = _groups_at_places(a, _places_named(items))
    units = []
    for name, item in items.items():
        if isinstance(item, str):
            units.append(_unit(a, name, _tokens_of_words(a, parts, item)))
            continue
        group = group_of_name[name]
        shown_name = name if isinstance(named, Mapping) else _text_of(a, group) or name
        units.append(_unit(a, shown_name, _tokens_of_place(name, group)))
    return units


def _items_by_name(named: Any) -> Items:
    """Return the words and places that a caller lists by what they are written as; of a mapping by its keys."""
    if isinstance(named, Mapping):
        return {str(name): item for name, item in named.items()}
    return {_written(item): item for item in named}


def _places_named(items: Items) -> Items:
    """Return which of the named items are places: spans, boxes or seconds, not words."""
    return {name: item for name, item in items.items() if not isinstance(item, str)}


def _groups_at_places(a: Attribution, places: Items) -> dict[str, NamedSpan]:
    """Return the units at spans, boxes or seconds, by the names of these; beside them others of pictures and sounds.

    The others are the pictures and sounds of which nothing is named, and what named regions leave of one.
    """
    try:
        groups = {group.name: group for group in groups_of(a, places)} if places else {}  # an empty mapping is refused
        check_coarser(a, [groups[name] for name in places])  # not the others, which nobody named
    except InputError as error:
        raise InputError(f"verify takes a count, words, spans and regions to leave out: {error}") from None
    return groups


def _tokens_of_place(name: str, group: NamedSpan) -> list[int]:
    """Return the tokens of which enough is in a place.

    Args:
        name: The name of the place, for errors.
        group: The place, with the share of each token that is in it; without shares all of each is.

    Raises:
        InputError: If no token is in it.
    """
    tokens = list(group.tokens)
    if group.weights:
        # A place that is smaller than that is left out with the patch that it is in.
        least = min(LEAST_WEIGHT, max(group.weights))
        tokens = [token for token, weight in zip(tokens, group.weights, strict=True) if weight >= least]
    if not tokens:
        raise InputError(f"{name} cannot be left out: the model does not read that part")
    return tokens


def _text_of(a: Attribution, group: NamedSpan) -> str:
    """Return the text at a span; empty for a region."""
    return "" if group.kind == "region" else (a.text or "")[group.start : group.end].strip()


def _written(item: Any) -> str:
    """Return a word as it is, or the numbers of a place as a caller writes them."""
    if not _is_place(item):
        return str(item)
    return f"({', '.join(f'{round(float(number), 3):g}' for number in item)})"


def _is_place(item: Any) -> bool:
    """Return whether a caller's item is a row of numbers: a span, a box or seconds."""
    is_row = isinstance(item, tuple | list | np.ndarray) and len(item) > 0
    return is_row and all(isinstance(number, Real) for number in item)


def _tokens_of_words(a: Attribution, parts: Sequence[UnitScore], words: str) -> list[int]:
    """Return the tokens of words, wherever the same text stands, or else of the parts that have this name.

    Raises:
        InputError: If there is neither.
    """
    tokens = _tokens_where_text_stands(a, words.strip())
    if not tokens:
        key = word_key(words)
        parts_of_name = (part for part in parts if key in map(word_key, _names(a, part)))
        tokens = [token for part in parts_of_name for token in part.tokens]
    if not tokens:
        near = nearest(words.strip(), {name for part in parts for name in _names(a, part)})
        hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise InputError(f"there is no {words!r} to leave out{hint}")
    return tokens


def _tokens_where_text_stands(a: Attribution, words: str) -> list[int]:
    """Return the tokens of words in the texts of an input, from the beginning of a word to the end of one."""
    if not words or not a.has_words or a.units.kind[0] != "token":
        return []
    tokens: list[int] = []
    for sequence, text in enumerate((a.text, a.text_pair)):
        units = [unit for unit in a.words(sequence=sequence) if unit.tokens[-1] < a.answer_units.start]  # of the prompt
        # Not at words: `_tokens_of_span` asks whether a place begins and ends with words of the result.
        for start, end in comparable(text or "").find(words, at_words=False):
            tokens += _tokens_of_span(units, start, end)
    return tokens


def _tokens_of_span(units: Sequence[UnitScore], start: int, end: int) -> list[int]:
    """Return the tokens of the words in a span; none if it begins or ends inside a word."""
    inside = [unit for unit in units if start <= unit.start < end]
    if not inside or (inside[0].start, inside[-1].end) != (start, end):
        return []
    return [token for unit in inside for token in unit.tokens]


def _names(a: Attribution, part: UnitScore) -> set[str]:
    """Return the names of a part: "notes.txt:1", the first source in a file, is also called "notes.txt"."""
    name = part.text.strip()
    # Tokens and words may hold a colon of their own; the units of a text come first, and are of one kind.
    return {name} if a.units.kind[0] == "token" else {name, name.rpartition(":")[0]}


def _unit(a: Attribution, name: str, tokens: Sequence[int]) -> UnitScore:
    """Return tokens as one unit, with the space before each word of them if that is a token by itself."""
    members = set(tokens)
    if a.has_words and a.units.kind[0] == "token":
        members |= {token for word in a.words() if word.tokens[-1] in members for token in word.tokens}
    ordered = tuple(sorted(members))
    # Of several targets, such as the tokens of a completion, the scores are summed.
    scores = a.scores.reshape(-1, a.scores.shape[-1])  # (rows, units)
    return UnitScore(name, ordered, float(scores[:, list(ordered)].sum()))
