"""Units: what can be removed of an input at a time, and which of it a caller chose."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from ..errors import InputError, nearest
from ..model.task_model import TaskModel
from ..results.attribution import Attribution, representative_layer
from ..results.units.media import Medium
from ..results.units.spans import check_coarser, groups_of
from ..results.units.units import UnitScore
from ..results.verification import Quantity, RemovedBy, RemovedUnit

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
    found = removable(a, fixed)._replace(
        target=a.target.name, quantity="value" if task.outputs.kind == "value" else "probability"
    )
    return picked(a, found, verify, None if task.position.left_to_right else fixed)


def picked(a: Attribution, found: Removable, verify: Verify, fixed: int | None = None) -> Removable:
    """Return removable parts, those to be removed one at a time first: of the highest scores, or the caller's."""
    if not found.parts:
        return found
    ranked = sorted(found.parts, key=lambda part: -part.score)  # stable: ties go to the earlier one
    if verify is None or verify == "auto" or isinstance(verify, int):
        count = verify if isinstance(verify, int) else SHOWN if verify == "auto" else 0
        return found._replace(parts=ranked, singles=min(count, len(ranked)), among_all=verify == "auto")
    if verify == "reasoning":
        raise InputError("verify='reasoning' leaves out sentences of a completion, and nothing was generated")
    if isinstance(verify, str):
        is_finer = verify == "word" and a.units.kind[0] not in ("token", "word")
        groups = groups_of(a, verify) if a.has_text and not is_finer else []
        if not groups:
            raise InputError(f"there are no {verify}s to leave out: the units are {found.unit}s")
        check_coarser(a, groups)
        by_tokens = {part.tokens: part for part in found.parts}
        units = [by_tokens.get(group.tokens) or _unit(a, group.name, group.tokens) for group in groups]
        free = sorted((part for part in units if fixed not in part.tokens), key=lambda part: -part.score)
        return found._replace(parts=free, singles=len(free), unit=verify)
    chosen = units_named(a, found.parts, verify)
    if any(fixed in part.tokens for part in chosen):
        raise InputError(f"{a.tokens[fixed or 0]!r} cannot be left out: the prediction is read there")
    tokens = {token for part in chosen for token in part.tokens}
    others = [part for part in ranked if tokens.isdisjoint(part.tokens)]
    items = verify.values() if isinstance(verify, Mapping) else verify
    unit = found.unit if all(isinstance(item, str) for item in items) else "part"
    found = found._replace(parts=[*chosen, *others], singles=len(chosen), unit=unit, named=True)
    return found._replace(one_by_one=not isinstance(verify, Together))


def units_named(a: Attribution, parts: Sequence[UnitScore], named: Any) -> list[UnitScore]:
    """Return the units of an input that a caller names: words, names of parts, spans, boxes or seconds."""
    items = {str(k): v for k, v in (named.items() if isinstance(named, Mapping) else zip(named, named, strict=True))}
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
        units.append(_unit(a, words.strip() or name, group.tokens))
    return units


def _tokens_of_words(a: Attribution, parts: Sequence[UnitScore], words: str) -> list[int]:
    """Return the tokens of words wherever they stand, from the beginning of a word to the end of one."""
    body, found = words.strip(), []
    for place, text in enumerate((a.text, a.text_pair)):
        if text is None or not body or not a.has_words or a.units.kind[0] != "token":
            continue
        units = [w for w in a.words(sequence=place) if a.prompt_tokens is None or w.tokens[-1] < a.prompt_tokens]
        starts, ends = {unit.start for unit in units}, {unit.end for unit in units}
        for match in re.finditer(re.escape(body), text):
            if match.start() in starts and match.end() in ends:
                found += [t for u in units if match.start() <= u.start < match.end() for t in u.tokens]
    names = [{part.text.strip()} for part in parts]
    if a.units.kind[0] != "token":  # "notes.txt:1" is a source of what is called "notes.txt"
        names = [{name, name.rpartition(":")[0]} for (name,) in names]
    found = found or [t for part, called in zip(parts, names, strict=True) if body in called for t in part.tokens]
    if not found:
        near = nearest(body, set().union(*names))
        hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise InputError(f"there is no {words!r} to leave out{hint}")
    return found


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
    names = [medium.name for medium in media]
    if len(set(names)) < len(names):
        names = [f"{medium.kind} {number}" for number, medium in enumerate(media, 1)]
    endings = [f" of {name}" if len(names) > 1 else "" for name in names]
    pairs = zip(media, endings, strict=True)
    return [part._replace(text=part.text + ending) for medium, ending in pairs for part in medium.removable()]


def text_parts(a: Attribution) -> list[UnitScore]:
    """Return the words of a text, or its tokens where words are not known."""
    if a.has_words:
        return a.words()
    plain = [i for i, special in enumerate(a.units.special) if not special and a.units.kind[i] == "token"]
    return [UnitScore(a.tokens[i], (i,), float(a.scores[i])) for i in plain]
