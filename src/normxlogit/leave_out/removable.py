"""What of an input can be left out: words, regions of pictures, moments of sounds."""

from typing import NamedTuple

from ..results.attribution import Attribution
from ..results.layers import representative_layer
from ..results.units.units import UnitScore
from ..results.verification import Quantity, RemovedBy, RemovedUnit


class Removable(NamedTuple):
    """The removable parts of an input, and what is measured without them.

    Attributes:
        parts: The parts.
        unit: What a part is.
        removed_by: How it is removed.
        target: The name of what is explained.
        quantity: What is measured.
        may_be_empty: Whether there is an answer without any part: without a prompt there is no completion.
        singles: How many of the parts are removed one at a time, the first ones.
        among_all: Whether the smallest set is searched for among all parts, if the removed ones change nothing.
        named: Whether the caller named the parts that are removed one at a time.
        one_by_one: Whether they are removed one at a time too, and a smallest set and a control looked for.
        all_together: Whether all parts are removed together, instead of the first ones, and nothing is searched for.
    """

    parts: list[UnitScore]
    unit: RemovedUnit
    removed_by: RemovedBy
    target: str = "the completion"
    quantity: Quantity = "log-probability"
    may_be_empty: bool = False
    singles: int = 0
    among_all: bool = False
    named: bool = False
    one_by_one: bool = True
    all_together: bool = False

    @property
    def most(self) -> int:
        """Most parts that are removed together; one stays where nothing may be empty, unless the caller wants all."""
        one_stays = not self.may_be_empty and self.one_by_one and not self.all_together
        return len(self.parts) - 1 if one_stays else len(self.parts)


def removable(a: Attribution, fixed: int | None = None) -> Removable:
    """Return the removable parts of an input or a prompt: words (tokens if these are not known), regions, moments.

    Where there are parts of several kinds, the unit is "part", and those of media have their kind in their name.

    Args:
        a: The result whose units are left out.
        fixed: The index of a token that stays, unless there is nothing else.
    """
    words = _removable_words(a, fixed)
    media = _removable_media(a)  # by kind
    if words and not media:
        return Removable(words, "word" if a.has_words else "token", "deleted")
    if len(media) == 1 and not words:
        return media[0]
    parts = [*words]
    for regions_or_moments in media:
        unit = regions_or_moments.unit
        parts += [part._replace(text=f"{unit} {part.text}") for part in regions_or_moments.parts]
    # Also where there are no parts at all.
    return Removable(parts, "part", "removed")


def _removable_words(a: Attribution, fixed: int | None) -> list[UnitScore]:
    """Return the words of an input, or of a prompt, that can be left out, see `removable`."""
    placeholders = set().union(*(medium.tokens for medium in a.media))  # tokens that stand for pictures and sounds
    before_answer = [part for part in text_parts(a) if part.tokens[-1] < a.answer_units.start]
    words = [part for part in before_answer if part.text.strip() and placeholders.isdisjoint(part.tokens)]
    return [word for word in words if fixed not in word.tokens] or words


def _removable_media(a: Attribution) -> list[Removable]:
    """Return the parts of pictures and sounds that can be left out, those of one kind together."""
    kinds = [medium.removed_unit for medium in a.scored_media]  # what each one's parts are, and how they are removed
    parts_by_kind: dict[tuple[RemovedUnit, RemovedBy], list[UnitScore]] = {kind: [] for kind in kinds}
    for medium, kind in zip(a.scored_media, kinds, strict=True):
        owner = f" of {medium.name}" if kinds.count(kind) > 1 else ""  # tells the parts of two pictures apart
        parts_by_kind[kind] += [part._replace(text=part.text + owner) for part in medium.removable()]
    return [Removable(parts, unit, removed_by) for (unit, removed_by), parts in parts_by_kind.items()]


def text_parts(a: Attribution) -> list[UnitScore]:
    """Return the words of a text, or its tokens without special ones where words are not known.

    Args:
        a: The result, with one score for each unit.
    """
    if a.has_words:
        return a.words()
    kinds = zip(a.units.kind, a.units.special, strict=True)
    tokens = [index for index, (kind, is_special) in enumerate(kinds) if kind == "token" and not is_special]
    return [UnitScore(a.tokens[index], (index,), float(a.scores[index])) for index in tokens]


def ranked_scores(a: Attribution) -> Attribution:
    """Return the scores that rank the units, one for each: of the predicted label, in the layer that is drawn at first.

    Args:
        a: The result, of one target or several, and of one layer or several.
    """
    if a.has_target_axis:
        predicted = a.predictions[0].id if a.predictions else None
        rows = [row for row, target in enumerate(a.targets) if target.id == predicted]
        # Where the caller named targets without the predicted label, the first of them ranks.
        a = a[rows[0] if rows else 0]
    return a if a.layers is None else a.layer(a.layers[representative_layer(a)])
