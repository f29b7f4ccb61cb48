"""The words that speak for and against each label: their mean scores over texts, the surest first."""

from collections.abc import Iterator

import numpy as np

from ...long_runs.intervals import quantile
from ...results.layers import last_visible
from .run_tables import LISTED_WORD, RunTables
from .units import Unit

EXAMPLES = 3
"""Examples of each word."""

ROWS_AT_ONCE = 65_536
"""Rows of which the words are grouped text by text at once, so that memory stays bounded."""

NO_PUNCTUATION = "[\\p{L}\\p{N}\\p{So}_]"
"""Letters and digits of any script, emoji and the like, for DuckDB, whose \\w knows English letters only."""


def visible_layer(run: RunTables) -> int:
    """Return the index of the last layer, among those of the run, that has visible scores outside special tokens."""
    sums = run.ask(
        """
        WITH block AS (
            SELECT scores, sequence_ids, len(units) AS n, len(target) AS labels,
                   unnest(range(len(scores) // greatest(n, 1))) AS place
            FROM shards
        ), flat AS (
            SELECT place % (len(scores) // (n * labels)) AS layer, unnest(sequence_ids) AS sequence,
                   abs(unnest(scores[place * n + 1 : (place + 1) * n])) AS size
            FROM block
        )
        SELECT coalesce(sum(size) FILTER (sequence IS NOT NULL), 0), coalesce(sum(size), 0)
        FROM flat GROUP BY layer ORDER BY layer
        """
    )
    outside_special, total = np.array(sums or [(0.0, 0.0)]).T  # (L,) each; of a run without any result one layer
    return last_visible(outside_special, total)


def sum_up_units(run: RunTables, layer: int) -> None:
    """Read the shards once into the table `unit_means`: the mean score of each unit by label, over texts.

    Special tokens and punctuation are left out. A text counts by the mean score of the unit's places in it. A row says
    for a label and a unit either what it is in all texts, or (`predicted`) in those that are predicted to have the
    label: in how many `texts` it stands, their `mean` with its standard `error`, and the rows of the `highest` and
    `lowest` scores.

    Args:
        run: The tables of the run.
        layer: The index of the layer whose scores count, among those of the run.
    """
    # The columns of units, of their scores, and of their sequences, which special tokens do not have, but all words.
    units = run.units_column
    scores, sequences = "scores", "sequence_ids"
    if run.unit == "words":
        scores, sequences = "word_scores", "list_transform(words, lambda x: 0)"
    count = f"len({units})"
    # A list of scores has a block for each target and layer; without layers, or without units, there is one layer.
    layers = f"greatest(len({scores}) // greatest({count} * len(target), 1), 1)"
    run.ask(
        """
        CREATE TEMP TABLE unit_sums (
            label VARCHAR, predicted BOOL, text VARCHAR, texts BIGINT, total DOUBLE, squares DOUBLE,
            highest STRUCT(score DOUBLE, row BIGINT)[], lowest STRUCT(score DOUBLE, row BIGINT)[]
        )
        """
    )
    word = LISTED_WORD.format(unit="unit")
    for first, last in _row_ranges(run):
        run.ask(
            f"""
            INSERT INTO unit_sums
            WITH label AS (
                SELECT row, prediction, {units} AS units, {sequences} AS sequences,
                       {scores} AS scores, {count} AS n, {layers} AS layers, target,
                       unnest(range(len(target))) AS k
                FROM distinct_texts WHERE row BETWEEN {first} AND {last}
            ), flat AS (
                SELECT row, prediction, target[k + 1] AS label, unnest(units) AS unit, unnest(sequences) AS sequence,
                       unnest(scores[(k * layers + {layer}) * n + 1 : (k * layers + {layer + 1}) * n]) AS score
                FROM label
            ), in_text AS (
                SELECT row, label, label = prediction AS predicted, {word} AS text, avg(score::DOUBLE) AS score
                FROM flat LEFT JOIN spellings ON unit = spelling
                WHERE sequence IS NOT NULL AND regexp_matches(unit, '{NO_PUNCTUATION}') GROUP BY ALL
            )
            SELECT label, predicted, text, count(*), sum(score), sum(score * score),
                   list_zip(arg_max(score, score, {EXAMPLES}), arg_max(row, score, {EXAMPLES})),
                   list_zip(arg_min(score, score, {EXAMPLES}), arg_min(row, score, {EXAMPLES}))
            FROM in_text GROUP BY ALL
            """  # noqa: S608  # names are quoted
        )
    run.ask(
        """
        CREATE TEMP TABLE unit_means AS
        WITH counted AS (
            SELECT label, false AS predicted, * EXCLUDE (label, predicted) FROM unit_sums
            UNION ALL SELECT * FROM unit_sums WHERE predicted
        )
        SELECT label, predicted, text, sum(texts)::BIGINT AS texts, sum(total) / sum(texts) AS mean,
               sqrt(greatest(sum(squares) / sum(texts) - mean * mean, 0) / nullif(sum(texts) - 1, 0)) AS error,
               flatten(list(highest)) AS highest, flatten(list(lowest)) AS lowest
        FROM counted GROUP BY label, predicted, text
        """
    )
    _add_quantiles(run)


def _row_ranges(run: RunTables) -> Iterator[tuple[int, int]]:
    """Yield the first and last row of each part of the run that is read at once."""
    ((first, last),) = run.ask("SELECT min(row), max(row) FROM shards")
    for start in range(first or 0, (last or 0) + 1, ROWS_AT_ONCE):  # None of a run without any result
        yield start, start + ROWS_AT_ONCE - 1


def _add_quantiles(run: RunTables) -> None:
    """Make the table `quantiles`: for each number of `texts` how many standard errors half a 95% interval is wide."""
    counts = [count for (count,) in run.ask("SELECT DISTINCT texts FROM unit_means WHERE texts > 1")]
    quantiles = quantile(np.array(counts, np.float64)).tolist()
    run.ask(
        "CREATE TEMP TABLE quantiles AS SELECT unnest(?::BIGINT[]) AS texts, unnest(?::DOUBLE[]) AS quantile",
        counts,
        quantiles,
    )


def rare_units(run: RunTables, min_texts: int) -> int:
    """Return how many units stand in fewer than `min_texts` texts; a unit counts for each of its labels."""
    query = "SELECT count(*) FROM unit_means WHERE NOT predicted AND texts < ?"
    return int(run.ask(query, min_texts)[0][0])


def surest_units(run: RunTables, top: int, min_texts: int, *, against: bool = False) -> list[Unit]:
    """Return the units with the surest effect for each label, or against its predictions.

    They are ordered by the end of their confidence interval that is nearest to 0, because an order by the mean would
    put rare units first. Units of a single text have no interval, and come last.

    Args:
        run: The tables of the run.
        top: How many units for each label.
        min_texts: In how many texts a unit stands at least.
        against: Whether scores are against the predicted label.
    """
    sign = -1 if against else 1
    extremes, order = ("lowest", "ASC") if against else ("highest", "DESC")
    rows = run.ask(
        f"""
        WITH bounded AS (
            SELECT label, text, texts, mean, mean - quantile * error AS low, mean + quantile * error AS high,
                   list_sort({extremes}, '{order}') AS extremes, {sign} * mean - quantile * error AS nearest
            FROM unit_means LEFT JOIN quantiles USING (texts)
            WHERE predicted = {against} AND texts >= ? AND {sign} * mean > 0
        )
        SELECT label, text, texts, mean, low, high, list_transform(extremes, lambda place: place.row)
        FROM bounded
        QUALIFY row_number() OVER (PARTITION BY label ORDER BY nearest DESC NULLS LAST, {sign} * mean DESC, text) <= ?
        ORDER BY label, nearest DESC NULLS LAST, {sign} * mean DESC, text
        """,  # noqa: S608  # no user's words
        min_texts,
        top,
    )
    names = run.ids_and_texts(sorted({row for *_, examples in rows for row in examples[:EXAMPLES]}))
    units = []
    for label, text, texts, mean, low, high, examples in rows:
        example_rows = examples[:EXAMPLES]  # each range of rows that was read at once had as many
        ids = [names[row][0] for row in example_rows]
        units.append(Unit(label, text, texts, mean, low, high, ids, example_rows))
    return units
