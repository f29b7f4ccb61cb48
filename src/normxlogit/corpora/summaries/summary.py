"""The summary of a corpus, computed in one streaming pass over its shards."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import DataError, InputError
from ...inputs.texts import positive_integer
from ...long_runs.gold.meaning import meaning_of
from ...long_runs.gold.model_labels import ModelLabels
from ...long_runs.gold.reader import Gold
from ...long_runs.gold.reading import agrees, read_gold
from ...long_runs.tables import arrow_module
from ...pipeline.arguments import checked_arguments
from ...results.attribution import Attribution, last_visible
from ...results.storage.columns import result_states
from ..columns import CORPUS
from .citations import CitationSummary, summarize_citations
from .run_tables import RunSummary, RunTables
from .units import SIGNALS, Reason, RowNote, Unit, WrongAnswer, Z

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
        unlabelled: Rows whose right label is missing or left out by `gold_labels`; they are neither right nor wrong.
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
    unlabelled: int = 0
    unknown: dict[str, int] = field(default_factory=dict)
    wrong: list[WrongAnswer] = field(default_factory=list)
    reasons: list[Reason] = field(default_factory=list)


@checked_arguments()
def summarize(
    folder: str | Path,
    *,
    gold: str | None = None,
    gold_labels: Any = None,
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
        gold: A kept column with the right labels: names of labels, booleans, or numbers that stand in the names of
            labels (3 is "3 stars") or are classes of a data set.
        gold_labels: What other values of that column mean: a mapping to labels such as {1: "negative", 5: "positive",
            3: None}, where None leaves rows out; the names of whole numbers from 0 on, as in a `ClassLabel`; or
            "id2label" if numbers count the labels of the model.
        top: Units in each list.
        min_count: Leave out units that stand at fewer places.
        verify: Find wrong reasons, and take each out of at most so many of the texts that have it.
        explainer: The model that the run was made by, for `verify`.

    Raises:
        DataError: If there is no such run, a column is missing, or the model is another.
        InputError: If answers are to be compared with labels, `gold_labels` cannot be read, or `verify` has no model or
            no words.
    """
    if (verify is None) != (explainer is None):
        raise InputError("verify= is how often a word is taken out, and explainer= the model that is asked: give both")
    if gold is None and gold_labels is not None:
        raise InputError("gold_labels= says what the values of the column gold= mean: give both")
    count = None if verify is None else positive_integer(verify, "verify")
    with closing(RunTables(folder)) as run:
        if run.of_answers:
            if gold is not None:
                raise InputError("gold= is for texts with labels, not for answers")
            if verify is not None:
                raise InputError("answers are tested when they are attributed: attribute(..., verify='auto')")
            return summarize_citations(run, top)
        layer, special = _layer_and_special(run)
        of_gold = {} if gold is None else _compared_with_gold(run, gold, gold_labels, layer, top)
        if explainer is not None and count is not None:
            from .reasons import check_model, find_reasons  # which import torch

            model = check_model(run, explainer)
            of_gold["reasons"] = find_reasons(run, model, layer, top, min_count, count)
        return _summary_of_predictions(run, layer, special, top, min_count, of_gold)


def _summary_of_predictions(
    run: RunTables, layer: int, special: float, top: int, least: int, measured: Mapping[str, Any]
) -> Summary:
    """Return the summary of a run of predictions, with what was measured beside its words."""
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
        texts={name: text for name, text in texts.values() if text is not None},
        **measured,
    )


def _compared_with_gold(run: RunTables, gold: str, gold_labels: Any, layer: int, top: int) -> dict[str, Any]:
    """Return the fields of `Summary` on right and wrong answers."""
    _check_column(run, gold)
    run.register_kept(gold)
    run.ask(
        """
        CREATE TEMP VIEW compared AS
        SELECT row, prediction, prediction_id, probability, kept_value, CAST(kept_value AS VARCHAR) AS key,
               concat(key, chr(31), prediction, chr(31), prediction_id) AS pair
        FROM shards JOIN kept USING (row)
        """
    )
    columns = "any_value(key), any_value(kept_value), any_value(prediction), any_value(prediction_id)"
    pairs = run.ask(f"SELECT pair, count(*), {columns} FROM compared GROUP BY pair")  # noqa: S608  # constant
    labels = _labels_of_model(run, {index: name for *_, name, index in pairs if name is not None and index is not None})
    counts = Counter[str | None]()
    for _, count, key, *_ in pairs:
        counts[key] += count
    gold_of = _gold_of_values(run, gold, gold_labels, {key: value for _, _, key, value, *_ in pairs}, counts, labels)
    right, judged, labelled, wrong = Counter[str](), Counter[str](), Counter[str](), {}
    for pair, count, key, _, prediction, index in pairs:
        of_pair = [of if isinstance(of, str) else labels.names.get(of, str(of)) for of in gold_of[key]]
        labelled.update(dict.fromkeys(of_pair, count))
        is_right = agrees(gold_of[key], prediction, index)
        if is_right is not None:
            judged[prediction] += count
            right[prediction] += count * is_right
        if is_right is False:
            wrong[pair] = ", ".join(of_pair)
    known = set(labels.names.values())
    unknown = [(label, count) for label, count in labelled.items() if labels.complete and label not in known]
    return {
        "unlabelled": sum(count for key, count in counts.items() if not gold_of[key]),
        "accuracy": right.total() / judged.total() if judged else None,
        "right": {label: right[label] / judged[label] for label in sorted(judged, key=str)},
        "unknown": dict(sorted(unknown, key=lambda entry: (-entry[1], entry[0]))),
        "wrong": _wrong(run, wrong, layer, top),
    }


def _labels_of_model(run: RunTables, predicted: Mapping[int, str]) -> ModelLabels:
    """Return the labels of the model; of a vocabulary the tokens that were predicted."""
    known = run.common.get("labels")
    if isinstance(known, list):
        return ModelLabels.in_order([str(label) for label in known])
    return ModelLabels(predicted, complete=False, tokens=run.common["outputs"] == "token")


def _gold_of_values(
    run: RunTables,
    gold: str,
    gold_labels: Any,
    values: Mapping[str | None, Any],
    counts: Mapping[str | None, int],
    labels: ModelLabels,
) -> dict[str | None, Gold]:
    """Return the gold labels that each value of the column means, by the value's text."""
    class_names = run.common.get("class_names", {}).get(gold, ())
    meaning = meaning_of(gold_labels, class_names)
    try:
        read = read_gold([*values.values()], labels, meaning, [counts[key] for key in values])
    except InputError as error:
        raise DataError(f"column {gold!r}: {error}") from None
    return dict(zip(values, read, strict=True))


def _check_column(run: RunTables, gold: str) -> None:
    """Refuse a column that cannot hold gold labels."""
    if gold not in run.kinds:
        raise DataError(f"no column {gold!r} in the results; keep it with --keep {gold}")
    if gold in CORPUS["text"]:
        raise DataError(f"column {gold!r} is one of the run's own; right labels stand in a column of the input")
    kind = run.kinds[gold]
    if arrow_module().types.is_nested(getattr(kind, "value_type", kind)):
        raise DataError(f"column {gold!r} holds {kind}; right labels are names or numbers, or lists of them")
    if run.common["outputs"] == "value":
        raise DataError(f"a regression has no right and wrong labels; leave out --gold {gold}")


def _wrong(run: RunTables, gold_of: dict[str, str], layer: int, top: int) -> list[WrongAnswer]:
    """Return the wrong answers with the highest probabilities."""
    answers = run.ask(
        """
        SELECT row, prediction, probability, pair FROM compared WHERE pair IN (SELECT unnest(?::VARCHAR[]))
        ORDER BY probability DESC NULLS LAST, row LIMIT ?
        """,
        list(gold_of),
        top,
    )
    rows, results = [row for row, *_ in answers], dict[int, Attribution]()
    if rows and run.unit not in SIGNALS.values():
        table = run.read_rows(rows)
        all_layers = map(Attribution.from_dict, result_states(table))
        at_layer = (a if a.layers is None else a.layer(a.layers[layer]) for a in all_layers)
        results = dict(zip(table["row"].to_pylist(), at_layer, strict=True))
    ids = run.ids_and_texts(rows)
    return [
        WrongAnswer(ids[row][0], label, probability, gold_of[pair], results.get(row))
        for row, label, probability, pair in answers
    ]


def _layer_and_special(run: RunTables) -> tuple[int, float]:
    """Return the last layer with visible scores outside special tokens, and the share that is on these."""
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
    """Read the shards once into the table `units`: sums by label of each unit but special tokens and punctuation."""
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
