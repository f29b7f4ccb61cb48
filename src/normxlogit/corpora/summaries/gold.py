"""Answers of a run compared with gold labels: how many are right, and which are wrong."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ...errors import DataError, InputError
from ...long_runs.gold import Gold, read_gold
from ...long_runs.tables import arrow_module
from ...results.attribution import Attribution
from ...results.storage.columns import result_states
from ..columns import CORPUS
from .run_tables import RunTables
from .units import SIGNALS, WrongAnswer

LISTED = 5
"""Most labels that an error lists."""


def compared_with_gold(run: RunTables, gold: str, layer: int, top: int) -> dict[str, Any]:
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
    known = run.common.get("labels")  # not a list of a vocabulary
    known = list(map(str, known)) if isinstance(known, list) else None
    labels = [*enumerate(known or ()), *((i, name) for *_, name, i in pairs if name is not None and i is not None)]
    gold_of = _gold_labels(run, gold, {key: value for _, _, key, value, *_ in pairs}, labels, known)
    names: dict[int | None, str] = {**dict(labels)}
    right, judged, labelled, wrong = Counter[str](), Counter[str](), Counter[str](), {}
    for pair, count, key, _, prediction, index in pairs:
        of_pair = [names.get(of.id, str(of.id)) if of.name is None else of.name for of in gold_of[key]]
        labelled.update(dict.fromkeys(of_pair, count))
        is_right = gold_of[key].agrees(prediction, index)
        if is_right is not None:
            judged[prediction] += count
            right[prediction] += count * is_right
        if is_right is False:
            wrong[pair] = ", ".join(of_pair)
    unknown = [(label, count) for label, count in labelled.items() if known is not None and label not in known]
    return {
        "accuracy": right.total() / judged.total() if judged else None,
        "right": {label: right[label] / judged[label] for label in sorted(judged, key=str)},
        "unknown": dict(sorted(unknown, key=lambda entry: (-entry[1], entry[0]))),
        "wrong": _wrong(run, wrong, layer, top),
    }


def _gold_labels(
    run: RunTables, gold: str, values: dict[str | None, Any], labels: list[tuple[int, str]], known: list[str] | None
) -> dict[str | None, Gold]:
    """Return the gold labels of each kept value, by its text; `labels` are all, `known` those that the model names."""
    try:
        read = read_gold([*values.values()], set(labels), tokens=run.common["outputs"] == "token")
    except InputError as error:
        raise DataError(f"column {gold!r}: {error}") from None
    outside = [i for labels_of in read for _, i in labels_of if i is not None and i >= len(known or ())]
    if known is not None and outside:
        raise DataError(
            f"column {gold!r} holds {min(outside)}, and the model has {len(known)} labels, counted from 0: "
            f"{', '.join(known[:LISTED])}{', ...' if len(known) > LISTED else ''}"
        )
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
    rows = [row for row, *_ in answers]
    ids, results = run.ids_and_texts(rows), _results(run, rows, layer)
    return [
        WrongAnswer(ids[row][0], label, probability, gold_of[pair], results.get(row))
        for row, label, probability, pair in answers
    ]


def _results(run: RunTables, rows: Sequence[int], layer: int) -> dict[int, Attribution]:
    """Return the attributions of some rows at a layer; none of pictures and sounds."""
    if not rows or run.unit in SIGNALS.values():
        return {}
    table = run.read_rows(rows)
    results = map(Attribution.from_dict, result_states(table))
    at_layer = (a if a.layers is None else a.layer(a.layers[layer]) for a in results)
    return dict(zip(table["row"].to_pylist(), at_layer, strict=True))
