"""Results as pandas tables, CSV and SHAP explanations."""

import csv
from collections.abc import Sequence
from importlib import import_module
from io import StringIO
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import DataError
from ..targets import prediction_of
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


def unit_columns(a: "Attribution") -> Columns:
    """Return a table with a row for each target, layer and unit that was read before the target."""
    units, count, prediction = a.units, len(a.units), prediction_of(a)
    spans = units.spans or ((None, None),) * count
    described: dict[str, Any] = {
        "position": range(count),
        "unit": units.text,
        "kind": units.kind,
        "name": [name or None for name in a.unit_names],
        "token_id": units.ids or (None,) * count,
        "start": [start for start, _ in spans],
        "end": [end for _, end in spans],
        "sequence": units.sequence,
        "special": units.special,
    }
    for medium in a.media:
        numbers = medium.places.reshape(-1, len(medium.place_columns)).T.tolist()
        names = [medium.name] * len(medium.part_names)
        for name, values in zip(("medium", *medium.place_columns), (names, *numbers), strict=True):
            described.setdefault(name, [None] * count)[medium.units] = values
    if a.verified is not None:
        removals = map(a.verified.without, range(count))
        described["value_without"] = [None if removal is None else removal.value for removal in removals]
    layers = a.layers or (None,)
    scores = a.scores.reshape(-1, len(layers), count)  # (K, L, U)
    rows = [(k, at, i) for k in range(len(scores)) for at in range(len(layers)) for i in a._read_before(k)]
    of_targets, of_layers, of_units = np.array(rows, int).reshape(-1, 3).T.tolist()
    columns: Columns = {
        "target": of_targets,
        "label": [a.targets[k].name for k in of_targets],
        "layer": [layers[at] for at in of_layers],
        **{name: [values[i] for i in of_units] for name, values in described.items()},
        "score": scores[of_targets, of_layers, of_units].tolist(),
        "text": [a.prompt] * len(rows),
    }
    if prediction is not None:
        shared = {"prediction": prediction.label, "probability": prediction.probability}
        columns |= {name: [value] * len(rows) for name, value in shared.items()}
    return columns


def text_row(a: "Attribution") -> Row:
    """Return the row of a text in a table of texts: the prediction, the top units and the notes."""
    summed = a._summed("a row for each text")
    row: Row = {"text": a.prompt, "prediction": a.completion or ""}
    if (prediction := prediction_of(a)) is not None:
        target = a.target.name + (f" rather than {a.target.contrast}" if a.target.contrast else "")
        row["prediction"] = prediction.label
        row |= {} if a.text_pair is None else {"text_pair": a.text_pair}
        row |= {"value": prediction.value, "probability": prediction.probability, "target": target}
        row |= {} if a.verified is None else a.verified.text_row()
    words = [pair for pair in named_scores(summed) if any(c.isalnum() for c in pair[0])]
    for name, sign in (("top_for", 1), ("top_against", -1)):
        strongest = sorted((pair for pair in words if sign * pair[1] > 0), key=lambda pair: -sign * pair[1])[:TOP]
        row[name] = ", ".join(f"{word} {score:+.3g}" for word, score in strongest)
    return row | {"truncated": a.truncated, "notes": "; ".join(a.notes)}


def named_scores(a: "Attribution") -> list[tuple[str, float]]:
    """Return the names and scores, (U,), of the units that are ranked: words, or other units."""
    if not (a.has_words and "token" in a.units.kind):
        return [(unit.name or unit.text, unit.score) for unit in a.top(len(a.units))]
    media_units = [unit for unit in a.top(len(a.units)) if unit.position >= a.text_units]
    last = len(a.prompt or "")
    words = [word for word in a.words() if word.sequence == 1 or word.end <= last]
    words_scores = [(word.text, float(np.asarray(word.score))) for word in words]
    return words_scores + [(unit.name or unit.text, unit.score) for unit in media_units]


def concat_tables(tables: Sequence[Columns], first: Sequence[Row]) -> Columns:
    """Concatenate tables, each with leading cells that all its rows share; missing columns are filled with None."""
    lengths = [len(next(iter(table.values()))) for table in tables]
    parts = [
        {name: [value] * count for name, value in row.items()} | table
        for row, table, count in zip(first, tables, lengths, strict=True)
    ]
    columns: Columns = {name: [] for part in parts for name in part}
    for name, values in columns.items():
        for part, count in zip(parts, lengths, strict=True):
            values += part.get(name, [None] * count)
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
    types = {**dict.fromkeys(WHOLE, "Int64"), "score": np.float32}
    return pandas.DataFrame(columns).astype({name: kind for name, kind in types.items() if name in columns})


def optional_module(name: str, otherwise: str) -> Any:
    """Import a module of an extra."""
    try:
        return import_module(name)
    except ImportError:
        raise DataError(otherwise) from None


def _cell(value: Any) -> Any:
    """Return a cell: text without control characters, a float32 in its shortest exact form."""
    return safe(value) if isinstance(value, str) else str(np.float32(value)) if isinstance(value, float) else value
