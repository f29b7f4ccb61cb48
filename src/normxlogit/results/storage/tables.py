"""Results as the tables and objects of other tools: pandas, CSV, SHAP."""

import csv
from collections.abc import Iterable, Sequence
from importlib import import_module
from io import StringIO
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...errors import DataError
from ..units.characters import safe
from .schema import FloatArray

if TYPE_CHECKING:
    from pandas import DataFrame


Row = dict[str, Any]
"""A row of a table by its columns."""

Columns = dict[str, list[Any]]
"""The columns of a table by name, all of one length."""

TOP = 3
"""Words in a cell."""

WHOLE = ("text_index", "generated", "layer", "position", "token_id", "start", "end", "sequence")
"""Columns of whole numbers, some of which may be missing."""


class Shap(NamedTuple):
    """What SHAP shows of one text.

    Attributes:
        values: Scores (T,), or (T, C) of several labels.
        base: What the scores add up from, (), or (C,) of several labels.
        data: The T pieces of the text.
        names: The label, or the C labels.
    """

    values: FloatArray
    base: FloatArray
    data: list[str]
    names: str | tuple[str, ...]


def text_pieces(
    tokens: Sequence[str],
    texts: Sequence[str | None],
    offsets: Sequence[tuple[int, int]] | None,
    sequences: Sequence[int | None],
) -> list[str]:
    """Cut texts into one piece for each token, white space with the token before it; special tokens have none."""
    if offsets is None or texts[0] is None:
        return [f"{token} " for token in tokens]
    pieces = [""] * len(tokens)
    for sequence, text in enumerate(texts):
        indices = [i for i, s in enumerate(sequences) if s == sequence]
        starts = [offsets[i][0] for i in indices]
        starts = list(accumulate(starts, max))  # tokens that share characters may go back
        for index, start, end in zip(indices, [0, *starts[1:]], [*starts[1:], len(text or "")], strict=False):
            pieces[index] = (text or "")[start:end]
    return pieces


def strongest_words(scored: Iterable[tuple[str, float]]) -> dict[str, str]:
    """Return the words of the highest positive scores, and those of the lowest negative ones, as cells."""
    words = [pair for pair in scored if any(c.isalnum() for c in pair[0])]
    cells = {}
    for name, sign in (("top_for", 1), ("top_against", -1)):
        strongest = sorted((pair for pair in words if sign * pair[1] > 0), key=lambda pair: -sign * pair[1])[:TOP]
        cells[name] = ", ".join(f"{word} {score:+.3g}" for word, score in strongest)
    return cells


def stacked(tables: Sequence[Columns], first: Sequence[Row]) -> Columns:
    """Put tables below each other, each behind cells that all its rows share; a column that one lacks is None there."""
    lengths = [len(next(iter(table.values()))) for table in tables]
    shared = ({name: [value] * count for name, value in row.items()} for row, count in zip(first, lengths, strict=True))
    parts = [cells | table for cells, table in zip(shared, tables, strict=True)]
    names = dict.fromkeys(name for part in parts for name in part)
    return {
        name: [v for part, count in zip(parts, lengths, strict=True) for v in part.get(name, [None] * count)]
        for name in names
    }


def to_csv(columns: Columns) -> str:
    """Return a table as CSV with a header line, for people and spreadsheets: without control characters."""
    buffer = StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(map(_cell, row) for row in zip(*columns.values(), strict=True))
    return buffer.getvalue()


def to_pandas(columns: Columns) -> "DataFrame":
    """Return a table of pandas.

    Raises:
        DataError: If pandas is missing.
    """
    pandas = optional_module("pandas", "a table needs pandas: pip install pandas")
    types = {**dict.fromkeys(WHOLE, "Int64"), "score": np.float32}
    return pandas.DataFrame(columns).astype({name: kind for name, kind in types.items() if name in columns})


def to_shap(part: Shap | Sequence[Shap]) -> Any:
    """Return one text, or several with a row for each, as a `shap.Explanation`.

    Raises:
        DataError: If shap is missing.
    """
    shap = optional_module("shap", "SHAP's explanations need shap: pip install shap")
    if isinstance(part, Shap):
        names = None if isinstance(part.names, str) else list(part.names)
        base: Any = part.base.astype(np.float64) if names else float(part.base)
        return shap.Explanation(part.values.astype(np.float64), base, np.array(part.data, object), output_names=names)
    values, data = np.empty(len(part), dtype=object), np.empty(len(part), dtype=object)
    for i, text in enumerate(part):
        values[i], data[i] = text.values.astype(np.float64), np.array(text.data, object)
    # Names of the features let SHAP average a word over texts of different lengths.
    pieces = {"data": data, "feature_names": [[piece.strip() for piece in text.data] for text in part]}
    first, shapes = part[0].names, {text.base.shape for text in part}
    # Texts with different numbers of labels have no common array.
    bases = [text.base.astype(np.float64) for text in part]
    base = np.stack(bases) if len(shapes) == 1 else np.array([*bases, None], object)[:-1]  # (B,) or (B, C)
    if isinstance(first, str) or any(text.names != first for text in part):
        return shap.Explanation(values, base, **pieces)
    return shap.Explanation(values, base, **pieces, output_names=list(first))


def optional_module(name: str, otherwise: str) -> Any:
    """Import a module of an extra."""
    try:
        return import_module(name)
    except ImportError:
        raise DataError(otherwise) from None


def _cell(value: Any) -> Any:
    """Return a text without control characters, a float32 in its shortest form that reads back the same."""
    return safe(value) if isinstance(value, str) else str(np.float32(value)) if isinstance(value, float) else value
