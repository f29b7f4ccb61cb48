"""Right and wrong answers: a run's predictions beside a kept column of right labels."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...errors import DataError, InputError
from ...long_runs.gold.meaning import meaning_of
from ...long_runs.gold.model_labels import ModelLabels
from ...long_runs.gold.reader import Gold
from ...long_runs.gold.reading import agrees, read_gold
from ...long_runs.tables import arrow_module
from ...results.attribution import Attribution
from ...results.storage.columns import result_states
from ..columns import CORPUS
from .run_tables import RunTables
from .units import SIGNALS, LabelAnswers, Share, WrongAnswer, share


class _Pair(NamedTuple):
    """The rows with one value of the gold column and one prediction."""

    key: str  # identifies the pair in the view `compared`
    rows: int  # how many rows there are
    value: str | None  # the text of the gold column's value
    prediction: str
    prediction_id: int
    gold: tuple[str, ...] = ()  # the names of the right labels
    is_right: bool | None = None  # None without a right label


_Pairs = Sequence[_Pair]


def compare_with_gold(run: RunTables, gold: str, gold_labels: Any, layer: int, top: int) -> dict[str, Any]:
    """Return the fields of `Summary` on right and wrong answers, and make the table `judged`: which rows are right.

    Args:
        run: The tables of the run.
        gold: The kept column of right labels.
        gold_labels: What the caller says of its values, see `summarize`.
        layer: The index of the layer, among those of the run, at which wrong answers are shown.
        top: The most wrong answers.

    Raises:
        DataError: If the column is missing, or holds what can be no label of the model.
    """
    _check_column(run, gold)
    run.register_kept(gold)
    # `chr(31)`, Unicode's separator of units, stands in no label; `concat` writes nothing for a missing value.
    run.ask(
        """
        CREATE TEMP VIEW compared AS
        SELECT row, prediction, prediction_id, probability, kept_value, CAST(kept_value AS VARCHAR) AS gold_text,
               concat(gold_text, chr(31), prediction, chr(31), prediction_id) AS pair
        FROM shards JOIN kept USING (row)
        """
    )
    pairs, labels = _judged_pairs(run, gold, gold_labels)
    judged = [pair for pair in pairs if pair.is_right is not None]
    _write_judged(run, judged)
    right = _right(judged)
    return {
        "accuracy": None if right is None else right.value,
        "right": right,
        "matrix": _matrix(judged),
        "unlabelled": sum(pair.rows for pair in pairs if not pair.gold),
        "unknown": _unknown_labels(pairs, labels),
        "wrong": _wrong_answers(run, judged, layer, top),
    }


def _judged_pairs(run: RunTables, gold: str, gold_labels: Any) -> tuple[list[_Pair], ModelLabels]:
    """Return the pairs of right label and prediction, with whether the prediction is right; and the model's labels."""
    rows = run.ask(
        """
        SELECT pair, count(*), any_value(gold_text), any_value(prediction), any_value(prediction_id),
               any_value(kept_value)
        FROM compared GROUP BY pair
        """
    )
    pairs = []
    values: dict[str | None, Any] = {}  # the values of the gold column by their texts
    for key, count, text, prediction, prediction_id, value in rows:
        pairs.append(_Pair(key, count, text, prediction, prediction_id))
        values[text] = value
    labels = _labels_of_model(run, pairs)
    gold_by_value = _gold_of_values(run, gold, gold_labels, values, _counts(pairs), labels)
    judged = []
    for pair in pairs:
        gold_of_pair = gold_by_value[pair.value]
        gold_names = tuple(_name(label, labels) for label in gold_of_pair)
        is_right = agrees(gold_of_pair, pair.prediction, pair.prediction_id)
        judged.append(pair._replace(gold=gold_names, is_right=is_right))
    return judged, labels


def _name(label: int | str, labels: ModelLabels) -> str:
    """Return the name of a gold label."""
    return label if isinstance(label, str) else labels.names.get(label, str(label))


def _counts(pairs: _Pairs) -> Mapping[str | None, int]:
    """Return for how many rows each value of the gold column stands."""
    counts = Counter[str | None]()
    for pair in pairs:
        counts[pair.value] += pair.rows
    return counts


def _labels_of_model(run: RunTables, pairs: _Pairs) -> ModelLabels:
    """Return the labels of the model; of a language model, which has no labels, the tokens that were predicted."""
    if run.common["outputs"] != "token":
        return ModelLabels.in_order(run.common["labels"])
    predicted = {pair.prediction_id: pair.prediction for pair in pairs}
    return ModelLabels(predicted, complete=False, are_tokens=True)


def _gold_of_values(
    run: RunTables,
    gold: str,
    gold_labels: Any,
    values: Mapping[str | None, Any],
    counts: Mapping[str | None, int],
    labels: ModelLabels,
) -> dict[str | None, Gold]:
    """Return the gold labels that each value of the column means, by the value's text.

    Args:
        run: The tables of the run.
        gold: The column.
        gold_labels: What the caller says of its values.
        values: Its values by their texts.
        counts: How many rows have each value, by its text.
        labels: The labels of the model.
    """
    class_names = run.common.get("class_names", {}).get(gold, ())
    meaning = meaning_of(gold_labels, class_names)
    try:
        gold_of_values = read_gold([*values.values()], labels, meaning, [counts[key] for key in values])
    except InputError as error:
        raise DataError(f"column {gold!r}: {error}") from None
    return dict(zip(values, gold_of_values, strict=True))


def _check_column(run: RunTables, gold: str) -> None:
    """Refuse a column that cannot hold gold labels."""
    if gold not in run.column_types:
        raise DataError(f"no column {gold!r} in the results; keep it with --keep {gold}")
    if gold in CORPUS["text"]:
        raise DataError(f"column {gold!r} is one of the run's own; right labels stand in a column of the input")
    kind = run.column_types[gold]
    if arrow_module().types.is_nested(getattr(kind, "value_type", kind)):  # of a list the type of its entries
        raise DataError(f"column {gold!r} holds {kind}; right labels are names or numbers, or lists of them")
    if run.common["outputs"] == "value":
        raise DataError(f"a regression has no right and wrong labels; leave out --gold {gold}")


def _write_judged(run: RunTables, judged: _Pairs) -> None:
    """Make the table `judged`: of each row with a right label whether its answer is right."""
    run.ask(
        """
        CREATE TEMP TABLE judged AS
        WITH pairs AS (SELECT unnest(?::VARCHAR[]) AS pair, unnest(?::BOOL[]) AS is_right)
        SELECT row, is_right FROM compared JOIN pairs USING (pair)
        """,
        [pair.key for pair in judged],
        [pair.is_right for pair in judged],
    )


def _right(judged: _Pairs) -> Share | None:
    """Return the share of right answers; None where no row has a right label."""
    rows = sum(pair.rows for pair in judged)
    return share(sum(pair.rows for pair in judged if pair.is_right), rows) if rows else None


def _matrix(judged: _Pairs) -> list[LabelAnswers]:
    """Return the answers by right label, the most frequent label first; none where a text has several right labels."""
    if any(len(pair.gold) != 1 for pair in judged):
        return []
    predicted = Counter[str]()  # how often each label is predicted
    by_label: dict[str, Counter[str]] = {}  # how often each label is predicted of the texts of a right label
    for pair in judged:
        predicted[pair.prediction] += pair.rows
        by_label.setdefault(pair.gold[0], Counter())[pair.prediction] += pair.rows
    matrix = []
    for label in {*by_label, *predicted}:  # a label may be never right, or never predicted
        predictions = by_label.get(label, Counter())
        answers = LabelAnswers(
            label=label,
            texts=predictions.total(),
            predictions=dict(predictions.most_common()),
            predicted=predicted[label],
        )
        matrix.append(answers)
    return sorted(matrix, key=lambda answers: (-answers.texts, answers.label))


def _unknown_labels(pairs: _Pairs, labels: ModelLabels) -> dict[str, int]:
    """Return the right labels that the model does not have, with their rows, the most frequent first."""
    rows = Counter[str]()
    for pair in pairs:
        rows.update(dict.fromkeys(pair.gold, pair.rows))
    known = set(labels.names.values())  # of a language model not all, so that nothing is unknown
    unknown = [(label, count) for label, count in rows.items() if labels.complete and label not in known]
    return dict(sorted(unknown, key=lambda entry: (-entry[1], entry[0])))


def _wrong_answers(run: RunTables, judged: _Pairs, layer: int, top: int) -> list[WrongAnswer]:
    """Return the wrong answers with the highest probabilities; a text that stands in several rows is listed once.

    The arguments are those of `compare_with_gold`; `judged` are the pairs with a right label.
    """
    gold_of = {pair.key: ", ".join(pair.gold) for pair in judged if not pair.is_right}
    answers = run.ask(
        f"""
        WITH wrong_pairs AS (SELECT unnest(?::VARCHAR[]) AS pair, unnest(?::VARCHAR[]) AS gold_names)
        SELECT min(row) AS first_row, any_value(compared.prediction), max(compared.probability) AS surest, gold_names,
               count(*)
        FROM compared JOIN wrong_pairs USING (pair) JOIN shards USING (row)
        GROUP BY gold_names, compared.prediction_id, hash({run.text_column})
        ORDER BY surest DESC NULLS LAST, first_row LIMIT ?
        """,  # noqa: S608  # a column's name
        list(gold_of),
        list(gold_of.values()),
        top,
    )
    rows = [row for row, *_ in answers]
    results = _results(run, rows, layer)
    ids_and_texts = run.ids_and_texts(rows)
    notes = run.notes_of(rows)
    wrong = []
    for row, label, probability, gold_names, rows_of_text in answers:
        row_id, _ = ids_and_texts[row]
        answer = WrongAnswer(
            id=row_id,
            prediction=label,
            probability=probability,
            gold=gold_names,
            result=results.get(row),
            notes=notes[row] or [],
            rows=rows_of_text,
        )
        wrong.append(answer)
    return wrong


def _results(run: RunTables, rows: Sequence[int], layer: int) -> dict[int, Attribution]:
    """Return the results of some rows by the numbers of the rows; none of pictures and sounds, which are not drawn.

    Args:
        run: The tables of the run.
        rows: The numbers of the rows.
        layer: The index of a layer among those of the run; the results have this layer alone.
    """
    if not rows or run.kind in SIGNALS:
        return {}
    table = run.read_rows(rows)
    attributions = map(Attribution.from_dict, result_states(table))
    at_layer = (a if a.layers is None else a.layer(a.layers[layer]) for a in attributions)
    return dict(zip(table["row"].to_pylist(), at_layer, strict=True))
