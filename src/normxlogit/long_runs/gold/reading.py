"""Gold labels of texts, and whether predictions are among them.

Names come first. A whole number means what the caller or the data set says; without either it is read only where the
names of the model's labels are told apart by numbers ("LABEL_0", "3 stars"). Everything else is refused, because data
and models number their labels in different orders.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain, repeat
from shlex import quote
from typing import Any

from ...errors import InputError
from ...inputs.label_names import class_names_of
from ...results.base import Record
from ...results.targets import prediction_of
from ...results.units.characters import one_line
from .marks import Row, are_marks, indices_of_ones, order_of_marks
from .meaning import ID2LABEL, GoldLabels, meaning_of
from .model_labels import LISTED, ModelLabels
from .reader import Gold, LabelReader
from .values import entries_of, whole_number_of


def read_gold(
    values: Sequence[Any],
    labels: ModelLabels,
    meaning: GoldLabels,
    counts: Iterable[int] = repeat(1),
) -> list[Gold]:
    """Read gold labels: strings, numbers, booleans, or lists of these; None, NaN and "" are missing ones.

    A list holds the labels that are true of a text, or a 0 or a 1 for each label.

    Args:
        values: The cells of the column of gold labels, (N,).
        labels: The labels of the model.
        meaning: What the caller or the data set says of the values.
        counts: How many rows have each of these cells, (N,), for the error.

    Returns:
        The gold labels of each cell, (N,).

    Raises:
        InputError: If it cannot be told which labels some values mean.
    """
    rows = list(map(entries_of, values))
    # Whole numbers are the ids of tokens, or the classes of a data set, where there are such.
    may_be_marks = not labels.are_tokens and not meaning.of_data_set
    if may_be_marks and are_marks(rows, len(meaning.names or labels.names)):
        meaning = order_of_marks(max(map(len, rows)), labels, meaning)
        rows = list(map(indices_of_ones, rows))
    reader = LabelReader(labels, meaning)
    read_label = lru_cache(None, typed=True)(reader.read)  # typed: 1 and True are equal, and may mean different labels
    gold_of_rows = [list(map(read_label, row)) for row in rows]
    unread = Counter[str]()  # how many rows have each value of which it cannot be told what it means
    for row, gold_of_row, count in zip(rows, gold_of_rows, counts, strict=False):  # `counts` may be endless
        unread.update(dict.fromkeys(_unread_names(reader, row, gold_of_row), count))
    if unread:
        raise InputError(_advice(unread, labels))
    # No value is None any more; one whose rows are left out is ().
    return [tuple(chain.from_iterable(filter(None, gold_of_row))) for gold_of_row in gold_of_rows]


def _unread_names(reader: LabelReader, row: Row, gold_of_row: Sequence[Gold | None]) -> set[str]:
    """Return the names, for an error, of the values of a row of which it cannot be told what they mean."""
    return {reader.name_of(value) for value, gold in zip(row, gold_of_row, strict=True) if gold is None}


def agrees(gold: Gold, name: str, id_: int) -> bool | None:
    """Return whether a predicted label is among the gold labels; None if there are no gold labels.

    Args:
        gold: The gold labels of a text, by index or name.
        name: The name of the predicted label.
        id_: Its index.
    """
    if not gold:
        return None
    return any(label == (name if isinstance(label, str) else id_) for label in gold)


def matches_gold(results: Sequence[Record], gold: Any, gold_labels: Any = None) -> list[bool | None]:
    """Return whether each result's prediction is its gold label; None without a prediction or gold label.

    Args:
        results: The results.
        gold: A gold label for each of them: a list, or a column, whose data set may name its classes.
        gold_labels: What the caller says of their values, see `meaning_of`.

    Raises:
        InputError: If the results have no labels, or it cannot be told which labels some values mean.
    """
    labels = _labels_of_results(results)
    class_names = class_names_of(getattr(gold, "features", None))  # of a column of a data set
    meaning = meaning_of(gold_labels, class_names)
    gold_of_results = read_gold(list(gold), labels, meaning)
    # A mapping, or "id2label", says which labels of the model are meant; otherwise they may be those of another task.
    if not meaning.mapping and not meaning.count_labels:
        _check_same_names(gold_of_results, labels, meaning.names)
    are_right = []
    for result, gold_of_result in zip(results, gold_of_results, strict=True):
        prediction = prediction_of(result)
        is_right = None if prediction is None else agrees(gold_of_result, prediction.label, prediction.id)
        are_right.append(is_right)
    return are_right


def _labels_of_results(results: Sequence[Record]) -> ModelLabels:
    """Return the labels that results predict or explain, which need not be all of the model's."""
    names: dict[int, str] = {}
    kinds = set()  # of targets
    for result in results:
        for target in result.scored.targets if result.error is None else ():
            kinds.add(target.kind)
            if target.id is not None:
                names[target.id] = target.name
        prediction = prediction_of(result)
        if prediction is not None:
            names[prediction.id] = prediction.label
    if kinds & {"value", "cosine"}:
        raise InputError("a regression has no right and wrong labels: filter by a function of the results")
    return ModelLabels(names, complete=False, are_tokens="token" in kinds)


def _check_same_names(gold: Sequence[Gold], labels: ModelLabels, class_names: Sequence[str]) -> None:
    """Refuse gold labels whose names are others than those of the model, as far as results show these.

    Args:
        gold: The gold labels of each text.
        labels: The labels that the results show.
        class_names: The names of all classes of the data set, which then have every label of the model among them;
            () if they are not known. Then at least one name must be that of a gold label and of a label of the model.
    """
    gold_names = Counter(label for label in chain.from_iterable(gold) if isinstance(label, str))
    if labels.are_tokens or labels.are_default_names or not gold_names:
        return
    shared_labels = set(map(labels.called, class_names or gold_names)) - {None}
    if class_names:
        are_same = len(shared_labels) == len(set(labels.names.values()))
    else:  # a single name that is not shared may be that of a class which is never predicted, or is never right
        has_single_name = 1 in (len(gold_names), len(labels.names))
        are_same = bool(shared_labels) or has_single_name
    if not are_same:
        raise InputError(_advice(gold_names, labels))


def _advice(unread: Mapping[str, int], labels: ModelLabels) -> str:
    """Return the error for values of which it cannot be told what they mean.

    Args:
        unread: The number of rows of each value, by what it is called.
        labels: The labels of the model.
    """
    counts = [f"{one_line(value)!r} ({count})" for value, count in sorted(unread.items())]
    more = f" and {len(counts) - LISTED} others" if len(counts) > LISTED else ""
    values = sorted(unread)[:LISTED]
    pairs = " ".join(f"{quote(one_line(value))}=LABEL" for value in values)
    has_numbers = any(whole_number_of(value) is not None for value in unread)
    in_order = f", or {ID2LABEL} if whole numbers count the labels of the model from 0" if has_numbers else ""
    return (
        f"cannot tell which labels of the model ({labels}) these gold labels mean (number of rows): "
        f'{", ".join(counts[:LISTED])}{more}. Say it with --gold-labels "{pairs}" (in Python gold_labels=...), with a '
        f"label of the model for each LABEL, with nothing to leave these rows out, or with the value itself to count "
        f"them as wrong{in_order}"
    )
