"""The columns of corpora by the kind of their results."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..extending import registered
from ..results.base import Record
from ..results.storage.columns import ANSWER, COMMON, TEXT, column_types, result_row
from ..results.storage.schema import FloatArray, Index, Strings
from ..results.units.media import Medium

MEDIA: Mapping[str, type[Medium]] = registered("media")

PLACES = {"first": Index, "grid": tuple[Index, ...], "places": FloatArray}
"""The types of further columns of pictures and sounds, which are fields of `Medium`: where its parts are.

`first` is the index of its first unit, `grid` the shape in which the parts lie, `places` where each is.
"""

CORPUS: Mapping[str, Mapping[str, Any]] = {
    "text": column_types(COMMON, TEXT) | {"words": Strings, "word_scores": FloatArray},
    "sources": column_types(COMMON, ANSWER),
    **{kind: column_types(COMMON, ANSWER) | {**record.columns} for kind, record in registered("results").items()},
    **{kind: column_types(COMMON, TEXT) | PLACES for kind in MEDIA},
}
"""The types of the columns of a corpus by the kind of its results."""


def corpus_row(result: Record, kind: str) -> dict[str, Any]:
    """Return a result as a row of a corpus, without `row` and `id`.

    Args:
        result: A result.
        kind: The kind of the results, a key of `CORPUS`.
    """
    if kind not in MEDIA:
        return result_row(result, CORPUS[kind])
    a = result.scored
    # Without what drawings alone need, such as a preview.
    small = replace(a, media=tuple(replace(medium, **medium.for_drawings) for medium in a.media))
    row = result_row(small, CORPUS[kind])
    if a.media:  # the picture or sound that is the input; () if it is not known where its parts are
        medium = a.media[0]
        row |= {"first": medium.first, "grid": medium.shape, "places": medium.places.ravel()}
    return row
