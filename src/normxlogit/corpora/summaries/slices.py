"""Slices of a run: how its rows are answered by the values of a kept column, or by the lengths of the texts."""

from collections.abc import Sequence
from typing import NamedTuple

from ...errors import DataError, InputError
from ...long_runs.tables import arrow_module
from .run_tables import RunTables
from .units import Slice, share

LENGTH = "length"
"""The name of the slices by words of a text, where no kept column is called so."""

MOST = 12
"""Most values of a column that are told apart: numbers and dates are put into ranges, rarer texts counted together."""

RANGES = 4
"""Into how many ranges of as many rows each the numbers of a column are put."""

ISO_DATE = r"\d{4}-\d\d-\d\d([T ].*)?"
"""Dates as CSV and JSON write them: texts, whose order is that of the dates."""

OTHER = "(other)"
"""The name of rarer values together."""

MISSING = "(missing)"
"""The name of rows without a value."""


def slices_by(run: RunTables, columns: Sequence[str], *, compared: bool) -> list[Slice]:
    """Return the slices of a run by each of some columns.

    Args:
        run: The tables of the run.
        columns: Kept columns; "length" also of the number of words (of tokens, where words were not written).
        compared: Whether the table `judged` says which answers are right.

    Raises:
        DataError: If a column was not kept.
        InputError: If a column holds lists or mappings.
    """
    return [slice_ for column in columns for slice_ in _slices_of(run, column, compared=compared)]


def _slices_of(run: RunTables, column: str, *, compared: bool) -> list[Slice]:
    """Return the slices by one column, in the order of their values; of texts the most frequent first."""
    _register_values(run, column)
    run.ask(f"CREATE OR REPLACE TEMP TABLE sliced AS {_grouped_rows(run)}")
    # Without right labels the column is NULL, so that all counts of it are 0. In the query 4 is `count(*)`.
    judged = "LEFT JOIN judged USING (row)" if compared else "CROSS JOIN (SELECT NULL::BOOL AS is_right)"
    rows = run.ask(
        f"""
        SELECT place, any_value(name), prediction, count(*), count(is_right), count(*) FILTER (is_right)
        FROM sliced JOIN (SELECT row, prediction FROM shards) USING (row) {judged}
        GROUP BY place, prediction ORDER BY place, 4 DESC, prediction
        """  # noqa: S608  # constants
    )
    predictions_of_place: dict[int, list[_PredictionCounts]] = {}  # by the places of slices in their order
    names: dict[int, str] = {}  # of slices, by their places
    for place, name, *counts in rows:
        names[place] = name
        predictions_of_place.setdefault(place, []).append(_PredictionCounts(*counts))
    unit = "" if column in run.column_types else run.unit  # of lengths
    return [_slice(column, names[place], unit, counts) for place, counts in predictions_of_place.items()]


class _PredictionCounts(NamedTuple):
    """The rows of a slice with one predicted label."""

    label: str
    rows: int
    judged: int  # how many of them have a right label
    right: int  # how many of them are right


def _slice(column: str, name: str, unit: str, predictions: Sequence[_PredictionCounts]) -> Slice:
    """Return a slice.

    Args:
        column: The column by whose values the rows are counted.
        name: The value of the slice, or the range of its values.
        unit: What lengths are counted in; empty of other values.
        predictions: Its rows by predicted label.
    """
    labels = {prediction.label: prediction.rows for prediction in predictions}
    judged = sum(prediction.judged for prediction in predictions)
    right = sum(prediction.right for prediction in predictions)
    accuracy = share(right, judged) if judged else None
    return Slice(column, name, sum(labels.values()), labels, accuracy, unit)


def _register_values(run: RunTables, column: str) -> None:
    """Make the view `kept`, with the number of each row and its `kept_value`: that of a column, or its length."""
    if column in run.column_types:
        kind = run.column_types[column]
        if arrow_module().types.is_nested(kind):
            raise InputError(f"by={column!r}: the column holds {kind}; rows are counted by texts, numbers or dates")
        run.register_kept(column)
    elif column == LENGTH:
        length = f"len({run.units_column})"
        run.ask(f"CREATE OR REPLACE TEMP VIEW kept AS SELECT row, {length} AS kept_value FROM shards")  # noqa: S608
    else:
        raise DataError(f"no column {column!r} in the results; keep it with --keep {column}, or count by {LENGTH}")


def _grouped_rows(run: RunTables) -> str:
    """Return the SQL query for the rows of `kept`, each with the `name` of its slice and its `place` among slices."""
    ((is_typed, is_dates, value_count),) = run.ask(
        f"""
        SELECT any_value(regexp_matches(typeof(kept_value), 'INT|FLOAT|DOUBLE|DECIMAL|DATE|TIME')),
               bool_and(regexp_full_match(CAST(kept_value AS VARCHAR), '{ISO_DATE}')), count(DISTINCT kept_value)
        FROM kept
        """  # noqa: S608  # constants
    )
    is_ordered = bool(is_typed or is_dates)  # numbers, dates and times; texts have no order of interest
    if is_ordered and value_count > MOST:
        return _by_range()
    return _by_value("kept_value" if is_ordered else "count(*) DESC, kept_value")


def _by_value(order: str) -> str:
    """Return the SQL query for slices of one value each, and of all values beyond the first `MOST` together.

    Args:
        order: The order of the values, in SQL.
    """
    return f"""
        WITH ranked AS (
            SELECT kept_value AS value, row_number() OVER (ORDER BY {order}) AS rank
            FROM kept WHERE kept_value IS NOT NULL GROUP BY kept_value
        )
        SELECT row, CASE WHEN rank IS NULL THEN {MOST + 2} ELSE least(rank, {MOST + 1}) END AS place,
               CASE WHEN rank IS NULL THEN '{MISSING}' WHEN rank > {MOST} THEN '{OTHER}'
                    ELSE CAST(kept_value AS VARCHAR) END AS name
        FROM kept LEFT JOIN ranked ON kept_value = value
        """  # noqa: S608  # constants


def _by_range() -> str:
    """Return the SQL query for slices of `RANGES` ranges of about as many rows; equal values are in one range."""
    shares = [part / RANGES for part in range(1, RANGES)]
    return f"""
        WITH limits AS (SELECT quantile_disc(kept_value, {shares}) AS bounds FROM kept),
        placed AS (
            SELECT row, kept_value, len(list_filter(bounds, lambda bound: bound < kept_value)) AS part
            FROM kept CROSS JOIN limits
        )
        SELECT row, coalesce(part, {RANGES}) AS place,
               coalesce(min(kept_value) OVER same || ' to ' || max(kept_value) OVER same, '{MISSING}') AS name
        FROM placed WINDOW same AS (PARTITION BY part)
        """  # noqa: S608  # constants
