"""The summary of a corpus, computed in one streaming pass over its shards."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...errors import InputError
from ...inputs.texts import positive_integer
from ...pipeline.arguments import checked_arguments
from ...results.attribution import last_visible
from .citations import CitationSummary, summarize_citations
from .gold import compared_with_gold
from .run_tables import RunSummary, RunTables
from .units import Reason, RowNote, Unit, WrongAnswer, Z

if TYPE_CHECKING:
    from ...explainer import Explainer

EXAMPLES = 3

NO_PUNCTUATION = "[\\p{L}\\p{N}\\p{So}_]"
"""Letters and digits of any script, emoji and the like, for DuckDB, whose \\w knows English letters only."""


@dataclass(frozen=True, kw_only=True)
class Summary(RunSummary):
    """The summary of a corpus run: which words speak for which labels, and in which answers the model is wrong.

    Attributes:
        layer: The layer whose scores these are: of several the last with scores outside special tokens that can be
            seen; None if layers were not asked for.
        unit: "words", "tokens", or of pictures "patches" and of sounds "frames", each of them at one place.
        failures: Why they have none, the most frequent reasons first.
        notes: What is noted of results, such as a text that was cut or is unknown to the tokenizer, in the same order.
        min_count: Least places of a unit in the lists.
        rare: Units that stand at fewer places.
        labels: How often each label was predicted.
        highest: For each label the units that speak for it most surely: of a mean score above 0, those whose 95%
            interval begins highest.
        against: For each label those that speak against its predictions most surely; empty for methods without a sign.
        special: Share of the magnitude of all scores that is on special tokens, which are in no list.
        accuracy: Share of right answers, None without a gold column.
        right: For each label the share of its predictions that are right; empty without a gold column.
        unknown: Right labels that the model does not have, with their rows; each of these rows counts as wrong.
        wrong: Rows with a wrong answer, those of the highest probability first.
        reasons: What turns most answers when it is put into texts with another one, the surest first; empty if that was
            not measured.
        texts: The texts of the examples by id, where they were kept.
    """

    layer: int | None
    unit: str
    failures: list[RowNote]
    notes: list[RowNote]
    min_count: int
    rare: int
    labels: dict[str, int]
    highest: list[Unit]
    against: list[Unit]
    special: float
    texts: dict[str, str]
    accuracy: float | None = None
    right: dict[str, float] = field(default_factory=dict)
    unknown: dict[str, int] = field(default_factory=dict)
    wrong: list[WrongAnswer] = field(default_factory=list)
    reasons: list[Reason] = field(default_factory=list)


@checked_arguments()
def summarize(
    folder: str | Path,
    *,
    gold: str | None = None,
    top: int = 15,
    min_count: int = 5,
    verify: int | None = None,
    explainer: "Explainer | None" = None,
) -> Summary | CitationSummary:
    """Sum up a corpus run.

    Of answers and conversations the summary says which of their sentences rest on the sources, contradict them or do
    not rest on them.

    Args:
        folder: The folder that `attribute` wrote.
        gold: A kept column with the right labels, by name or index.
        top: Units in each list.
        min_count: Leave out units that stand at fewer places.
        verify: Find wrong reasons, and take each out of at most so many of the texts that have it.
        explainer: The model that the run was made by, for `verify`.

    Raises:
        DataError: If there is no such run, a column is missing, or the model is another.
        InputError: If answers are to be compared with labels, or `verify` has no model or no words.
    """
    if (verify is None) != (explainer is None):
        raise InputError("verify= is how often a word is taken out, and explainer= the model that is asked: give both")
    count = None if verify is None else positive_integer(verify, "verify")
    with closing(RunTables(folder)) as run:
        if run.of_answers:
            if gold is not None:
                raise InputError("gold= is for texts with labels, not for answers")
            if verify is not None:
                raise InputError("answers are tested when they are attributed: attribute(..., verify='auto')")
            return summarize_citations(run, top)
        layer, special = _layer_and_special(run)
        summary = _summarize_predictions(run, layer, special, gold, top, min_count)
        if explainer is None or count is None:
            return summary
        from .reasons import check_model, find_reasons  # which import torch

        model = check_model(run, explainer)
        return replace(summary, reasons=find_reasons(run, model, layer, top, min_count, count))


def _summarize_predictions(
    run: RunTables, layer: int, special: float, gold: str | None, top: int, least: int
) -> Summary:
    """Return the summary of a run of predictions.

    Args:
        layer: The index of the layer whose scores count.
        special: The share of its scores that is on special tokens.
        gold: The column of the right labels, None without one.
        top: Units in each list.
        least: Least places of a unit in the lists.
    """
    of_gold = {} if gold is None else compared_with_gold(run, gold, layer, top)
    _sum_up_units(run, layer)
    highest = _units(run, top, least)
    against = _units(run, top, least, against=True) if run.common.get("signed") else []
    texts = run.ids_and_texts(sorted({row for _, rows in (*highest, *against) for row in rows}))

    def with_examples(units: Sequence[tuple[Unit, list[int]]]) -> list[Unit]:
        return [replace(unit, examples=[texts[row][0] for row in rows]) for unit, rows in units]

    rare = "SELECT count(*) FROM (SELECT sum(count) AS n FROM units GROUP BY label, text) WHERE n < ?"
    return Summary(
        **run.described(),
        layer=run.common["layers"][layer] if run.common.get("layers") else None,
        unit=run.unit,
        failures=_failures(run, top),
        notes=_notes(run, top),
        min_count=least,
        rare=run.ask(rare, least)[0][0],
        labels=dict(run.ask("SELECT prediction, count(*) AS n FROM shards GROUP BY ALL ORDER BY n DESC, 1")),
        highest=with_examples(highest),
        against=with_examples(against),
        special=special,
        **of_gold,
        texts={name: text for name, text in texts.values() if text is not None},
    )


def _layer_and_special(run: RunTables) -> tuple[int, float]:
    """Return the index of the summarised layer, and the share of its scores that is on special tokens.

    It is the last layer with visible scores outside special tokens.
    """
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
    outside_special, total = np.array(sums or [(0.0, 0.0)]).T  # (L,) each
    layer = last_visible(outside_special, total)
    return layer, float(1 - outside_special[layer] / total[layer]) if total[layer] else 0.0


def _sum_up_units(run: RunTables, layer: int) -> None:
    """Read the shards once into the table `units`: sums by label of each unit but special tokens and punctuation.

    A row explains K labels at L layers; of the layers `layer` counts, from 0.
    """
    words = run.unit == "words"
    units, scores = ("words", "word_scores") if words else ("units", "scores")
    sequences = "list_transform(words, lambda x: 0)" if words else "sequence_ids"
    n = f"len({units})"
    layers = f"greatest(len({scores}) // greatest({n} * len(target), 1), 1)"
    run.ask(
        f"""
        CREATE TEMP TABLE units AS
        WITH label AS (
            SELECT row, prediction, {units} AS units, {sequences} AS sequences,
                   {scores} AS scores, {n} AS n, {layers} AS layers, target,
                   unnest(range(len(target))) AS k
            FROM shards
        ), flat AS (
            SELECT row, prediction, target[k + 1] AS label, unnest(units) AS unit, unnest(sequences) AS sequence,
                   unnest(scores[(k * layers + {layer}) * n + 1 : (k * layers + {layer + 1}) * n]) AS score
            FROM label
        )
        SELECT label, label = prediction AS predicted, lower(trim(unit)) AS text,
               count(*) AS count, sum(score) AS total, sum(score::DOUBLE * score) AS squares,
               list_zip(arg_max(score, score, {EXAMPLES}), arg_max(row, score, {EXAMPLES})) AS highest,
               list_zip(arg_min(score, score, {EXAMPLES}), arg_min(row, score, {EXAMPLES})) AS lowest
        FROM flat WHERE sequence IS NOT NULL AND regexp_matches(unit, '{NO_PUNCTUATION}') GROUP BY ALL
        """  # noqa: S608  # names are quoted
    )


def _units(run: RunTables, top: int, least: int, against: bool = False) -> list[tuple[Unit, list[int]]]:
    """Return the units with the most certain effect for (or against) each label, with rows as examples.

    They are ordered by the end of their confidence interval that is nearer to 0, because an order by the mean would
    put rare units first. Units at a single place have no interval, and come last.
    """
    sign, where, extremes, order = (-1, "predicted", "lowest", "ASC") if against else (1, "true", "highest", "DESC")
    rows = run.ask(
        f"""
        WITH grouped AS (
            SELECT label, text, sum(count)::BIGINT AS n, sum(total) / n AS mean,
                   {Z} * sqrt(greatest(sum(squares) / n - mean * mean, 0) / greatest(n - 1, 1)) AS half,
                   flatten(list({extremes})) AS places
            FROM units WHERE {where} GROUP BY label, text
        )
        SELECT label, text, n, mean, mean - half, mean + half, []::VARCHAR[], list_sort(places, '{order}')
        FROM grouped WHERE n >= ? AND {sign} * mean > 0
        QUALIFY row_number() OVER (PARTITION BY label ORDER BY n > 1 DESC, {sign} * mean - half DESC, text) <= ?
        ORDER BY label, n > 1 DESC, {sign} * mean - half DESC, text
        """,  # noqa: S608  # no user's words
        least,
        top,
    )
    return [(Unit(*row), list(dict.fromkeys(i for _, i in places))[:EXAMPLES]) for *row, places in rows]


def _failures(run: RunTables, top: int) -> list[RowNote]:
    """Return the reasons for rows without a result, the most frequent first."""
    ids: dict[str, list[str]] = {}
    for _, name, reason in run.folder.failures(run.written):
        ids.setdefault(reason, []).append(name)
    failures = [RowNote(reason, len(names), names[:EXAMPLES]) for reason, names in ids.items()]
    return sorted(failures, key=lambda failure: -failure.rows)[:top]


def _notes(run: RunTables, top: int) -> list[RowNote]:
    """Return the notes on results, the most frequent first."""
    rows = run.ask(
        f"""
        SELECT arg_min(note, row), count(DISTINCT row), list_slice(list(id ORDER BY row), 1, {EXAMPLES})
        FROM (SELECT row, id, unnest(notes) AS note FROM shards)
        GROUP BY regexp_replace(note, '\\d+', '0', 'g') ORDER BY 2 DESC, 1 LIMIT ?
        """,  # noqa: S608  # no user's words
        top,
    )
    return [RowNote(*row) for row in rows]
