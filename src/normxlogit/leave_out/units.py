"""Units: what can be removed of an input at a time, and which of it a caller chose."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from ..errors import InputError, nearest
from ..model.task_model import TaskModel
from ..results.attribution import Attribution
from ..results.layers import representative_layer
from ..results.units.grouping import sequenced
from ..results.units.media import Medium
from ..results.units.spans import NamedSpan, is_box, prompt_sources
from ..results.units.words import UnitScore
from ..results.verification import Quantity, RemovedBy, RemovedUnit

REGIONS = 8
"""Most regions of a picture in a row or a column, as a single small patch seldom has an effect."""

MOMENT = 0.25
"""Least duration, in seconds, of a part of a sound that is silenced."""

SHOWN = 5
"""How many units `verify="auto"` removes one at a time; the command line and the app ask for as many."""

Group = Literal["word", "sentence", "paragraph", "message"]

Named = Group | list[Any] | tuple[Any, ...] | Mapping[str, Any]
"""Units that a caller names, see `units_named`."""

Verify = int | Literal["auto"] | Named | None
"""What is removed one at a time: so many units of the highest scores, "auto" five of them, every unit of a kind, or the
units of a list; None for nothing."""


class Removable(NamedTuple):
    """The removable parts of an input, and what is measured without them.

    Attributes:
        parts: The parts with their scores.
        unit: Their kind.
        removed_by: How they are removed.
        target: The name of what is explained.
        quantity: The measured quantity.
        singles: How many of the parts are removed one at a time, the first ones.
        among_all: Whether the smallest set is searched for among all parts, if the removed ones change nothing.
    """

    parts: list[UnitScore]
    unit: RemovedUnit
    removed_by: RemovedBy
    target: str = "the completion"
    quantity: Quantity = "log-probability"
    singles: int = 0
    among_all: bool = False


def removable_for_task(model: TaskModel, a: Attribution, verify: Verify = 0) -> Removable:
    """Return the removable parts of an input, those to be removed first.

    The token whose label or prediction is explained is kept, and so is the one at which an answer is read, unless there
    is nothing else to remove.

    Args:
        model: The model.
        a: The explanation.
        verify: Which parts are removed.
    """
    a = ranked_scores(a)
    fixed = a.target.position if model.task.answers_at_token else None
    found = removable(a, fixed)._replace(target=a.target.name, quantity=model.task.measured)
    chosen = picked(found, verify, partial(units_named, a))
    if fixed is None or model.task.left_to_right or isinstance(verify, int) or verify in (None, "auto"):
        return chosen
    units, rest = chosen.parts[: chosen.singles], chosen.parts[chosen.singles :]
    left = [part for part in units if fixed not in part.tokens]
    if len(left) < len(units) and (not isinstance(verify, str) or not left):
        raise InputError(f"{a.tokens[fixed]!r} cannot be left out: it is where the prediction is read")
    return chosen._replace(parts=[*left, *rest], singles=len(left))


def picked(found: Removable, verify: Verify, named: Callable[[Named], list[UnitScore]]) -> Removable:
    """Return removable parts, those to be removed one at a time first: of the highest scores, or the caller's.

    Args:
        found: All parts.
        verify: Which are removed.
        named: Returns the parts that a caller names.
    """
    ranked = sorted(found.parts, key=lambda part: -part.score)  # stable: ties go to the earlier one
    if verify == "auto" or isinstance(verify, int):
        count = SHOWN if verify == "auto" else verify
        return found._replace(parts=ranked, singles=min(count, len(ranked)), among_all=verify == "auto")
    if verify is None or verify == found.unit:
        return found._replace(parts=ranked, singles=0 if verify is None else len(ranked))
    chosen = named(verify)
    if isinstance(verify, str):
        return found._replace(parts=sorted(chosen, key=lambda part: -part.score), singles=len(chosen), unit=verify)
    tokens = {token for part in chosen for token in part.tokens}
    others = [part for part in ranked if tokens.isdisjoint(part.tokens)]
    unit: RemovedUnit = found.unit if all(isinstance(item, str) for item in verify) else "part"
    return found._replace(parts=[*chosen, *others], singles=len(chosen), unit=unit)


def units_named(a: Attribution, named: Named) -> list[UnitScore]:
    """Return the units of an input that a caller names.

    Args:
        a: The explanation, with one score for each token.
        named: A kind, each of whose units is one; or a list of words (or several in a row) wherever they stand, spans
            (start, end) of characters of the text (of a pair (0 or 1, start, end)), boxes of a picture (left, top,
            right, bottom), of several pictures with its number first, and spans of a sound in seconds, as floats; or
            such spans and boxes by names.

    Raises:
        InputError: If there is no such unit.
    """
    texts = [text for text in (a.text, a.text_pair) if text is not None] if a.has_text else []
    if isinstance(named, str):
        kinds = [(sequenced(a, place), place) for place in range(len(texts))]
        pieces = [piece._replace(sequence=place) for s, place in kinds for piece in prompt_sources(s, named)]
        return [_unit(a, piece.name, [piece]) for piece in pieces]
    items = named.items() if isinstance(named, Mapping) else [("", item) for item in named]
    return [_unit(a, str(name), _pieces(a, item, len(texts))) for name, item in items]


def _pieces(a: Attribution, item: Any, texts: int) -> list[NamedSpan]:
    """Return the parts of the input that a caller names by a word or a place."""
    if isinstance(item, str):
        return [piece for place in range(texts) for piece in _occurrences(a, item, place)] or _no_word(a, item)
    numbers = tuple(item) if isinstance(item, Sequence) else ()
    if is_box(item) and a.images:
        return [_inside(a.images[0 if len(numbers) == 4 else numbers[0]], np.array(numbers[-4:], float))]
    if len(numbers) == 2 and a.audio and isinstance(numbers[0], float):
        return [_inside(a.audio[0], np.array(numbers, float))]
    place = numbers[0] if len(numbers) == 3 else 0
    if len(numbers) not in (2, 3) or not texts or place not in range(texts):
        raise InputError(f"{item!r} is no word of the input, and no span (start, end) of its characters")
    start, end = numbers[-2:]
    (piece,) = prompt_sources(sequenced(a, place), {f"{start} to {end}": (start, end)})
    return [piece._replace(sequence=place)]


def _occurrences(a: Attribution, words: str, place: int) -> list[NamedSpan]:
    """Return where words stand in one of the texts, from the beginning of a word to the end of one."""
    if not a.has_words:
        return [NamedSpan(words, 0, 0, part.tokens) for part in text_parts(a) if part.text.strip() == words.strip()]
    sequence = sequenced(a, place)
    edges = a.words(sequence=place)
    starts, ends = {word.start for word in edges}, {word.end for word in edges}
    text = sequence.text[: sequence.prompt_characters]
    found = [match.span() for match in re.finditer(re.escape(words.strip()), text) if words.strip()]
    spans = [(start, end) for start, end in found if start in starts and end in ends]
    pieces = [NamedSpan(words, *span, sequence.tokens_in(*span, of_answer=False), sequence=place) for span in spans]
    return [piece for piece in pieces if piece.tokens]


def _no_word(a: Attribution, words: str) -> NoReturn:
    """Raise the error for words that are not in the input."""
    near = nearest(words, {part.text.strip() for part in text_parts(a)}) if a.has_text else []
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
    raise InputError(f"the input holds no {words!r} as whole words{hint}")


def _inside(medium: Medium, where: npt.NDArray[np.float64]) -> NamedSpan:
    """Return the patches of a picture, or the frames of a sound, whose centres lie in a box or a span."""
    half = len(where) // 2
    places = medium.places.reshape(-1, 2 * half)  # (n, 4) or (n, 2)
    centres = (places[:, :half] + places[:, half:]) / 2  # (n, 2) or (n, 1)
    inside = np.flatnonzero(((where[:half] <= centres) & (centres < where[half:])).all(-1))
    if not len(inside):
        raise InputError(f"no part of {medium.name} has its centre in {tuple(where.tolist())}")
    name = ",".join(f"{number:g}" for number in where)
    return NamedSpan(name, 0, 0, tuple((medium.first + inside).tolist()), "region" if half == 2 else "moment", None)


def _unit(a: Attribution, name: str, pieces: Sequence[NamedSpan]) -> UnitScore:
    """Return pieces of the input as one unit, with the space before each of them if that is a token by itself."""
    tokens = {token for piece in pieces for token in piece.tokens}
    if a.has_words:
        spaces = with_spaces_before(a.words())
        tokens |= {token for word in spaces if word.tokens[-1] in tokens for token in word.tokens}
    ordered = tuple(sorted(tokens))
    text = name or pieces[0].name
    if not name and pieces[0].sequence is not None and a.has_words:  # what is removed, which may be more than was named
        spans, body = a.units.spans or (), (a.text, a.text_pair)[pieces[0].sequence] or ""
        text = body[min(spans[t][0] for t in pieces[0].tokens) : max(spans[t][1] for t in pieces[0].tokens)].strip()
    scores = a.scores.reshape(-1, a.scores.shape[-1])[:, list(ordered)]  # (answers, n)
    return UnitScore(text, ordered, float(scores.sum()), pieces[0].start, pieces[0].end, pieces[0].sequence)


def ranked_scores(a: Attribution) -> Attribution:
    """Return the scores that rank the units: those of the predicted label and of the layer that is drawn at first."""
    if a.has_target_axis:
        predicted = None if not a.predictions else a.predictions[0].id
        a = a[next((k for k, target in enumerate(a.targets) if target.id == predicted), 0)]
    return a if a.layers is None else a.layer(a.layers[representative_layer(a)])


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
