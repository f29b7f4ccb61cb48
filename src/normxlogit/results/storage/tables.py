"""Results as tables: columns of units or of texts, as CSV and for pandas."""

import csv
from collections.abc import Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...errors import optional_module
from ..choosing import units_before
from ..targets import Prediction, prediction_of
from ..units.characters import safe

if TYPE_CHECKING:
    from pandas import DataFrame

    from ..attribution import Attribution


Row = dict[str, Any]
Columns = dict[str, list[Any]]
"""A row of a table by its columns, and the columns of a table by name, all of one length."""

TOP = 3
"""Words in a cell of top words."""

WHOLE = ("text_index", "generated", "layer", "position", "token_id", "start", "end", "sequence")
"""Columns of whole numbers, some of which may be missing."""


class NamedScore(NamedTuple):
    """A word or another unit by what it is called, with its score."""

    name: str
    score: float


def unit_columns(a: "Attribution") -> Columns:
    """Return a table with a row for each target, layer and unit that was read before the target."""
    layers = a.layers or (None,)  # without an axis of layers their column is empty
    scores = a.scores.reshape(-1, len(layers), len(a.units))  # (K, L, U)
    rows = [
        (target, layer, unit)
        for target in range(len(scores))
        for layer in range(len(layers))
        for unit in units_before(a, target)
    ]
    # Of each row the index of its target, of its layer and of its unit; also of a table without rows.
    targets, layer_indices, units = np.array(rows, int).reshape(-1, 3).T.tolist()
    columns: Columns = {
        "target": targets,
        "label": [a.targets[target].name for target in targets],
        "layer": [layers[index] for index in layer_indices],
        **{name: [values[unit] for unit in units] for name, values in _described_units(a).items()},
        "score": scores[targets, layer_indices, units].tolist(),
        "text": [a.prompt] * len(rows),
    }
    if (prediction := prediction_of(a)) is not None:
        columns["prediction"] = [prediction.label] * len(rows)
        columns["probability"] = [prediction.probability] * len(rows)
    return columns


def _described_units(a: "Attribution") -> dict[str, Sequence[Any]]:
    """Return what is known of each unit: columns, (U,), by their names."""
    units = a.units
    count = len(a.units)
    starts, ends = zip(*(units.spans or [(None, None)] * count), strict=True)
    described: dict[str, Any] = {
        "position": range(count),
        "unit": units.text,
        "kind": units.kind,
        "name": [name or None for name in a.unit_names],
        "token_id": units.ids or [None] * count,
        "start": starts,
        "end": ends,
        "sequence": units.sequence,
        "special": units.special,
    }
    for medium in a.media:
        columns = {"medium": [medium.name] * len(medium.part_names)}
        columns |= zip(medium.place_columns, medium.flat_places.T.tolist(), strict=True)
        for name, values in columns.items():
            column = described.setdefault(name, [None] * count)  # media of one kind share their columns
            column[medium.units] = values
    if a.verified is not None:
        removals = map(a.verified.without, range(count))
        # None of a unit that was not removed by itself.
        described["value_without"] = [removal and removal.value for removal in removals]
    return described


def text_row(a: "Attribution") -> Row:
    """Return the row of a text in a table of texts: the prediction, the top units and the notes."""
    scores = named_scores(a, "a row for each text")  # first, as it refuses what has no such row
    row: Row = {"text": a.prompt, "prediction": a.completion or ""}  # replaced where there is a single prediction
    if (prediction := prediction_of(a)) is not None:
        row |= _prediction_cells(a, prediction)
    words = [word for word in scores if any(map(str.isalnum, word.name))]
    row |= {"top_for": _top_words(words, 1), "top_against": _top_words(words, -1)}
    return row | {"truncated": a.truncated, "notes": "; ".join(a.notes)}


def _prediction_cells(a: "Attribution", prediction: Prediction) -> Row:
    """Return the cells of a prediction, of the explained target, and of the answers without parts of the text."""
    row: Row = {"prediction": prediction.label}
    if a.text_pair is not None:
        row["text_pair"] = a.text_pair
    target = a.target.name
    contrast = a.target.contrast
    row |= {"value": prediction.value, "probability": prediction.probability}
    row["target"] = f"{target} rather than {contrast}" if contrast else target
    return row if a.verified is None else row | a.verified.text_row()


def _top_words(words: Sequence[NamedScore], sign: int) -> str:
    """Return the words with the largest scores of a sign, 1 or -1, for a cell."""
    of_sign = sorted((word for word in words if sign * word.score > 0), key=lambda word: -sign * word.score)
    return ", ".join(f"{word.name} {word.score:+.3g}" for word in of_sign[:TOP])


def named_scores(a: "Attribution", purpose: str) -> list[NamedScore]:
    """Return the units that are ranked, with their scores: words of what was read, or other units.

    Args:
        a: The result; of a completion the sum over the answer counts.
        purpose: What the scores are for, as an error says it.

    Raises:
        DataError: If there are several labels or layers.
    """
    summed = a._summed(purpose)
    units = summed.top(len(a.units))
    if a.has_words and "token" in a.units.kind:  # words of the prompt in the place of its tokens
        # A word is of the prompt if its last token is: none reaches over the beginning of the answer.
        words = [word for word in summed.words() if word.tokens[-1] < a.answer_units.start]
        parts_of_media = [unit for unit in units if unit.position >= a.text_units]
        units = words + parts_of_media
    return [NamedScore(unit.name or unit.text, unit.score) for unit in units]


def concat_tables(tables: Sequence[Columns], leading_cells: Sequence[Row]) -> Columns:
    """Concatenate tables; missing columns are filled with None.

    Args:
        tables: The tables, each with at least one column.
        leading_cells: Of each table the cells that all its rows share, which stand before its own.
    """
    columns: Columns = {}
    row_count = 0
    for own_columns, cells in zip(tables, leading_cells, strict=True):
        length = len(next(iter(own_columns.values())))
        table = {name: [value] * length for name, value in cells.items()} | own_columns
        for name in columns | table:
            column = columns.setdefault(name, [None] * row_count)
            column.extend(table.get(name, [None] * length))
        row_count += length
    return columns


def to_csv(columns: Columns) -> str:
    """Return a table as CSV with a header line, for people and spreadsheets: without control characters."""
    buffer = StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(map(_cell, row) for row in zip(*columns.values(), strict=True))
    return buffer.getvalue()


def to_pandas(columns: Columns) -> "DataFrame":
    """Return a table of pandas."""
    pandas = optional_module("pandas", "a table needs pandas: pip install pandas")
    types = {**dict.fromkeys(WHOLE, "Int64"), "score": np.float32}  # "Int64" of pandas has missing values
    return pandas.DataFrame(columns).astype({name: kind for name, kind in types.items() if name in columns})


def _cell(value: Any) -> Any:
    """Return a cell: text without control characters, a float32 in its shortest exact form."""
    if isinstance(value, str):
        return safe(value)
    return str(np.float32(value)) if isinstance(value, float) else value
