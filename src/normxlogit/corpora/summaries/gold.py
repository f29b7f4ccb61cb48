"""Answers of a run compared with gold labels: how many are right, and which are wrong."""

from collections.abc import Sequence
from typing import Any

from ...errors import DataError, InputError
from ...long_runs.columns import CORPUS
from ...long_runs.gold import read_gold
from ...long_runs.tables import arrow_module
from ...render.layout import layout
from ...results.attribution import Attribution
from ...results.storage.columns import result_states
from .run_tables import RunTables
from .units import SIGNALS, WrongAnswer

LISTED = 5
"""Most labels that an error lists."""


def _judge(run: RunTables, gold: str) -> None:
    """Make `judged` of the shards, with `is_right`, NULL where there is no gold label, and the names of the `gold`."""
    _check_column(run, gold)
    column = run.with_kept(gold)
    key = f"CAST(shards.{column} AS VARCHAR)"
    values = dict(run.ask(f"SELECT {key}, any_value(shards.{column}) FROM shards GROUP BY 1"))  # noqa: S608  # quoted
    answers = run.ask(f"SELECT DISTINCT {key}, prediction, prediction_id FROM shards")  # noqa: S608  # quoted
    label_names = run.common.get("labels")  # not a list of a vocabulary
    labels = list(enumerate(map(str, label_names))) if isinstance(label_names, list) else []
    labels += [(index, name) for _, name, index in answers if name is not None and index is not None]
    try:
        read = read_gold([*values.values()], set(labels), tokens=run.common["target"]["kind"] == "token")
    except InputError as error:
        raise DataError(f"column {gold!r}: {error}") from None
    outside = [i for labels_of in read for _, i in labels_of if i is not None and i >= len(label_names or ())]
    if isinstance(label_names, list) and outside:
        raise DataError(
            f"column {gold!r} holds {min(outside)}, and the model has {len(label_names)} labels, counted from 0: "
            f"{', '.join(map(str, label_names[:LISTED]))}{', ...' if len(label_names) > LISTED else ''}"
        )
    names: dict[int | None, str] = {**dict(labels)}
    gold_of = dict(zip(values, read, strict=True))
    rows = [
        {
            "value": value,
            "answer": name,
            "answer_id": index,
            "is_right": gold_of[value].agrees(name, index),
            "gold": [names.get(of.id, str(of.id)) if of.name is None else of.name for of in gold_of[value]],
        }
        for value, name, index in answers
    ]
    arrow = arrow_module()
    kinds = (arrow.string(), arrow.string(), arrow.int64(), arrow.bool_(), arrow.list_(arrow.string()))
    run.register("verdicts", arrow.Table.from_pylist(rows, arrow.schema([*zip(rows[0], kinds, strict=True)])))
    run.ask(
        f"""
        CREATE TEMP VIEW judged AS
        SELECT shards.* EXCLUDE ({column}), verdicts.is_right AS is_right, verdicts.gold AS gold
        FROM shards LEFT JOIN verdicts
        ON verdicts.value = {key} AND answer = prediction AND answer_id IS NOT DISTINCT FROM prediction_id
        """  # noqa: S608  # quoted
    )


def _check_column(run: RunTables, gold: str) -> None:
    """Refuse a column that cannot hold gold labels."""
    if gold not in run.kinds:
        raise DataError(f"no column {gold!r} in the results; keep it with --keep {gold}")
    if gold in CORPUS["text"]:
        raise DataError(f"column {gold!r} is one of the run's own; right labels stand in a column of the input")
    kind = run.kinds[gold]
    if arrow_module().types.is_nested(getattr(kind, "value_type", kind)):
        raise DataError(f"column {gold!r} holds {kind}; right labels are names or numbers, or lists of them")
    if run.common["target"]["kind"] == "value":
        raise DataError(f"a regression has no right and wrong labels; leave out --gold {gold}")


def compared_with_gold(run: RunTables, gold: str, layer: int, top: int) -> dict[str, Any]:
    """Return the fields of `Summary` on right and wrong answers.

    Args:
        run: The run.
        gold: The kept column of the right labels.
        layer: The index of the layer whose scores are shown.
        top: Most answers in the list of wrong ones.

    Raises:
        DataError: If the column does not hold labels of the model.
    """
    _judge(run, gold)
    right = "SELECT prediction, avg(is_right::INT) FROM judged WHERE is_right IS NOT NULL GROUP BY 1 ORDER BY 1"
    counts = run.ask("SELECT unnest(gold) AS label, count(*) FROM judged GROUP BY label ORDER BY 2 DESC, 1")
    label_names = run.common.get("labels")
    known = set(map(str, label_names)) if isinstance(label_names, list) else None  # None of a vocabulary
    return {
        "accuracy": run.ask("SELECT avg(is_right::INT) FROM judged")[0][0],
        "right": dict(run.ask(right)),
        "unknown": {label: n for label, n in counts if known is not None and label not in known},
        "wrong": _wrong(run, layer, top),
    }


def _wrong(run: RunTables, layer: int, top: int) -> list[WrongAnswer]:
    """Return the wrong answers with the highest probabilities."""
    answers = run.ask(
        """
        SELECT row, prediction, probability, array_to_string(gold, ', ') FROM judged WHERE NOT is_right
        ORDER BY probability DESC NULLS LAST, row LIMIT ?
        """,
        top,
    )
    rows = [row for row, *_ in answers]
    ids, texts = run.ids_and_texts(rows), _coloured_texts(run, rows, layer)
    return [
        WrongAnswer(ids[row][0], label, probability, gold, texts.get(row, []))
        for row, label, probability, gold in answers
    ]


def _coloured_texts(run: RunTables, rows: Sequence[int], layer: int) -> dict[int, list[list[tuple[str, float | None]]]]:
    """Return the texts of some rows, by row; nothing for pictures and sounds.

    A row has one text or a pair; each is a list of pieces with their scores, None between the scored units.
    """
    if not rows or run.unit in SIGNALS.values():
        return {}
    table = run.read_rows(rows)
    texts_by_row = {}
    for row, state in zip(table["row"].to_pylist(), result_states(table), strict=True):
        laid_out = layout(Attribution.from_dict(state))
        scores: list[float] = laid_out.grid.scores[layer].tolist()
        texts_by_row[row] = [
            [(piece.text, None if piece.column is None else scores[piece.column]) for piece in pieces]
            for pieces in laid_out.texts
        ]
    return texts_by_row
