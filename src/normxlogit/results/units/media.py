"""What an input holds beside a text, such as a picture: its parts are units, each with a place in it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise, product
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...errors import DataError, InputError
from ...extending import registered
from ..storage.schema import Fields, Float64Array, FloatArray, Index, Indices, Strings, freeze, record_check, require
from ..verification import RemovedBy, RemovedUnit
from .units import UnitKind, Units, UnitScore

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ...render.blocks import Block, MediumBlock
    from ..attribution import Attribution

Place = tuple[float, ...]
"""A part of a medium, such as a box of pixels or a span of seconds: the beginnings along its axes, then the ends."""

Regions = dict[str, tuple[int, Place]]
"""Places that a caller named: in which of the media each is, and where."""


class MediaPlace(NamedTuple):
    """A source of an answer in a medium: all of it, a region, or what regions leave.

    Attributes:
        medium: The index of the medium.
        name: What the source is called.
        kind: "region", or "medium" for a whole one and for what regions leave.
        places: Where it is; empty for a whole medium.
    """

    medium: int
    name: str
    kind: UnitKind
    places: list[Place]


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Medium:
    """A part of the input that is not text; its own parts are consecutive units of the result.

    An extension has a class for each kind, and names it in `Extension.media`.

    Attributes:
        kind: Which kind it is.
        name: Its name in drawings, such as the name of its file.
        first: Index of its first unit.
        places: float32: where each part is along A axes, (..., 2 A): the beginnings, then the ends.
        tokens: The tokens of the text that stand for it, which have no score of their own.
        scores: float32, the shape of the places behind the axes of targets and layers that the result has: of
            `scored_media`. Empty in the `media` of a result, whose `scores` hold them.
        unit_kind: The kind of its units.
        parts_name: What its parts are called in drawings.
        removed_unit: What a removable part of it is called, and how it is removed.
        is_over_time: Whether words of an answer follow it, and are drawn over it.
        region_form: How a caller writes a region of it, for errors.
        place_columns: The names of the numbers of a place in tables.
        for_drawings: Fields for drawings alone, each with what it is without one: corpora leave them out.
    """

    unit_kind: ClassVar[UnitKind]
    parts_name: ClassVar[str]
    removed_unit: ClassVar[tuple[RemovedUnit, RemovedBy]]
    is_over_time: ClassVar[bool] = False
    region_form: ClassVar[str] = "its parts alone"
    place_columns: ClassVar[Strings] = ()
    for_drawings: ClassVar[Mapping[str, Any]] = {}

    kind: str
    name: str
    first: Index
    places: FloatArray
    tokens: Indices = ()
    scores: FloatArray = field(default_factory=lambda: np.zeros(0, np.float32))

    def __post_init__(self) -> None:
        freeze(self)

    @classmethod
    def of_state(cls, state: Any) -> "Medium":
        """Return a medium of its fields, as a file has them; ValueError if no extension names its kind."""
        if not isinstance(state, Mapping):
            raise ValueError(f"expected fields with values, got a {type(state).__name__}")
        checked: Any = medium_class(str(state.get("kind")))
        return record_check(checked)(state)

    @classmethod
    def is_region(cls, item: Any, *, has_text: bool = True) -> bool:
        """Return whether a caller's source is written as a region of such a medium, and not as a span of a text."""
        return False

    @classmethod
    def regions(cls, media: Sequence[Any], named: Fields) -> Regions:
        """Return named regions: for each name, the index of the medium and the place in it.

        Args:
            media: All media of the kind that the input holds, maybe none, each with a `name` and an `extent`.
            named: What a caller wrote, of which `is_region` is true.

        Raises:
            InputError: If there is no such medium, or a region is not inside it.
        """
        raise NotImplementedError

    @property
    def extent(self) -> tuple[float, ...]:
        """Its size along each axis of its places."""
        raise NotImplementedError

    @staticmethod
    def place_name(place: Sequence[float]) -> str:
        """Return the name of a place, such as its box."""
        raise NotImplementedError

    @property
    def part_names(self) -> list[str]:
        """The names of its parts, which say where they are."""
        return [self.place_name(place) for place in self.flat_places.tolist()]

    @property
    def flat_places(self) -> FloatArray:
        """The place of each of its parts, (parts, 2 A)."""
        return self.places.reshape(-1, self.places.shape[-1])

    @property
    def shape(self) -> Indices:
        """The shape of its parts, such as rows and columns."""
        return self.places.shape[:-1]

    @property
    def units(self) -> slice:
        """The slice of the result's units that are its parts."""
        return slice(self.first, self.first + int(np.prod(self.shape)))

    @property
    def total(self) -> FloatArray:
        """The sum over the parts, with the leading axes of `scores`."""
        return np.asarray(self.scores.sum(tuple(range(-len(self.shape), 0))))

    def as_units(self) -> Units:
        """Return its parts as units."""
        numbers = tuple(",".join(map(str, index)) for index in np.ndindex(self.shape))
        kinds: tuple[UnitKind, ...] = (self.unit_kind,) * len(numbers)
        return Units(kind=kinds, text=numbers, special=(False,) * len(numbers), sequence=(0,) * len(numbers))

    @property
    def _edges(self) -> tuple[Float64Array, Float64Array]:
        """Where each of its parts begins and ends along each axis, (..., A) each."""
        low, high = np.split(self.places.astype(np.float64), 2, -1)
        return low, high

    @property
    def sizes(self) -> Float64Array:
        """The size of each of its parts, such as an area: 0 of what fills it up to what a model reads."""
        low, high = self._edges
        return np.asarray((high - low).prod(-1))

    def share_inside(self, place: Sequence[float]) -> Float64Array:
        """Return the share of each of its parts that lies in a place, of the shape of its parts."""
        start, end = np.split(np.array(place, np.float32).astype(np.float64), 2)  # as its own places are rounded
        low, high = self._edges
        inside = np.clip(np.minimum(high, end) - np.maximum(low, start), 0, None)  # (..., A)
        return np.asarray(inside.prod(-1) / np.maximum(self.sizes, 1e-12))  # 0 of a part without a size

    def place_of(self, units: Sequence[int]) -> Place:
        """Return the place around some of its units, such as a box."""
        places = self.flat_places[[unit - self.first for unit in units]]  # (n, 2 A)
        low, high = np.split(places, 2, -1)  # (n, A) each
        return (*low.min(0).tolist(), *high.max(0).tolist())

    def validate(self, units: int) -> None:
        """Raise ValueError if a part has no place, or is not among the units."""
        axes = len(self.extent)
        has_places = self.places.ndim == axes + 1 and self.places.shape[-1] == 2 * axes
        require(has_places, f"places of {self.name!r}: not {2 * axes} numbers for each part")
        require(self.units.stop <= units, f"places of {self.name!r}: more parts than units")
        require(not self.scores.size, f"scores of {self.name!r}: they are those of the result")

    def removed_together(self) -> NDArray[np.intp]:
        """Return for each of its parts the number of the group that is left out with it, -1 for none."""
        raise NotImplementedError

    def removable(self) -> list[UnitScore]:
        """Return the groups of its parts that can be left out; of several answers the sums of their scores count."""
        group_of_parts = self.removed_together()  # (parts,)
        scores = self.scores.reshape(-1, group_of_parts.size).sum(0, dtype=np.float64)  # (parts,)
        removable = []
        for group in dict.fromkeys(group_of_parts[group_of_parts >= 0].tolist()):  # each once; -1 is none
            is_in_group = group_of_parts == group  # (parts,)
            units = tuple((self.first + np.flatnonzero(is_in_group)).tolist())
            name = self.place_name(self.place_of(units))
            removable.append(UnitScore(name, units, float(scores[is_in_group].sum())))
        return removable

    def block(self, *, signed: bool, first: int | None = None, alone: bool = True) -> "MediumBlock":
        """Return its block, coloured relative to its largest score; many parts are merged.

        Args:
            signed: Whether scores have a sign.
            first: The number of its first part among the sources of links; None for no links.
            alone: Whether it is the only one of its kind, so that parts need not say of which they are.
        """
        raise NotImplementedError

    def blocks_over_time(self, names: Sequence[str]) -> "list[Block]":
        """Return further blocks of what each of some words rests on in it; `scores` has a row for each."""
        return []

    def figure(self, result: "Attribution", k: int | None) -> "Figure":
        """Return the figure of all media of a result with it, for at most `k` parts of an answer."""
        raise DataError(f"there is no figure of inputs of the kind {self.kind}; to_html draws them")


def is_region(item: Any, *, has_text: bool = True) -> bool:
    """Return whether a caller's source is a region of a medium."""
    is_pair = isinstance(item, tuple) and len(item) == 2 and all(type(number) is int for number in item)
    if has_text and is_pair:
        return False  # characters of the text
    return any(kind.is_region(item, has_text=has_text) for kind in registered("media").values())


def media_places(media: Sequence[Any], sources: Any, *, has_text: bool = True) -> list[MediaPlace]:
    """Return what of media is a source: each medium as a whole, or its named regions and the rest of it.

    Args:
        media: The pictures and sounds, each with `kind`, `name` and `extent`.
        sources: What the caller named, as in `Attribution.group`.
        has_text: Whether there is a text, of which a pair of whole numbers is a span of characters.

    Raises:
        InputError: If a region is in no medium, or two regions overlap.
    """
    named = _named_regions(sources, has_text)
    regions = _placed_regions(media, named, has_text) if named else []
    places = []
    for index, medium in enumerate(media):
        of_medium = [region for region in regions if region.medium == index]
        for region, second in combinations(of_medium, 2):
            if overlap(region.places[0], second.places[0]):
                raise InputError(f"the sources {region.name!r} and {second.name!r} overlap")
        places += of_medium
        if not of_medium:
            places.append(MediaPlace(index, medium.name, "medium", places=[]))
        elif rest := _outside([region.places[0] for region in of_medium], medium.extent):
            places.append(MediaPlace(index, f"the rest of {medium.name}", "medium", places=rest))
    return places


def _named_regions(sources: Any, has_text: bool) -> Fields:
    """Return what of a caller's named sources are regions; without a text all must be."""
    named = {}
    for name, item in sources.items() if isinstance(sources, Mapping) else ():
        if is_region(item, has_text=has_text):
            named[str(name)] = item
        elif not has_text:
            forms = ", ".join(f"of a {kind} {medium.region_form}" for kind, medium in registered("media").items())
            raise InputError(f"source {name!r}: {item} is not a region: {forms}")
    return named


def _kinds_present_first(media: Sequence[Any]) -> list[tuple[str, Any]]:
    """Return the kinds of media with their classes, those that the input holds first."""
    present = {medium.kind for medium in media}
    return sorted(registered("media").items(), key=lambda item: item[0] not in present)


def _placed_regions(media: Sequence[Any], named: Fields, has_text: bool) -> list[MediaPlace]:
    """Return named regions with their media; one that could be of two kinds is of a medium that is there.

    Args:
        media: The pictures and sounds of the input.
        named: What a caller wrote for each region, by its name.
        has_text: Whether the input has a text, too.
    """
    regions = []
    unplaced = {**named}
    for kind, class_of_kind in _kinds_present_first(media):
        indices = [index for index, medium in enumerate(media) if medium.kind == kind]
        of_kind = {name: item for name, item in unplaced.items() if class_of_kind.is_region(item, has_text=has_text)}
        placed = class_of_kind.regions([media[index] for index in indices], of_kind)
        for name, (number, place) in placed.items():
            regions.append(MediaPlace(indices[number], name, "region", places=[place]))
            del unplaced[name]
    return regions


def overlap(first: Place, second: Place) -> bool:
    """Return whether two places, or spans of characters, have something in common."""
    axes = len(first) // 2  # the beginnings along the axes stand before the ends
    return all(first[axis] < second[axes + axis] and second[axis] < first[axes + axis] for axis in range(axes))


def _outside(places: Sequence[Place], extent: Sequence[float]) -> list[Place]:
    """Return places that together are what is in none of some places of a medium.

    The edges of all places cut the medium into cells, and each cell is inside a place or in none.
    """
    axes = len(extent)
    edges = [
        sorted({0, size, *(edge for place in places for edge in (place[axis], place[axes + axis]))})
        for axis, size in enumerate(extent)
    ]
    cells = []
    for sides in product(*map(pairwise, edges)):  # of a cell the beginning and the end along each axis
        beginnings, ends = zip(*sides, strict=True)
        cells.append((*beginnings, *ends))
    return [cell for cell in cells if not any(overlap(cell, place) for place in places)]


def medium_class(kind: str) -> type[Medium]:
    """Return the class of a kind of media."""
    require(kind in registered("media"), f"kind: {kind!r} is of no extension that is installed")
    return registered("media")[kind]
