"""The first cards of a summary: three sentences and a picture, the predictions, the right answers, and slices."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from ...render.blocks import Block, Card, Cell, Header, Paragraph, cell
from ...render.describe import model_text
from ...results.units.characters import one_line
from ..summaries.summary import Summary
from ..summaries.units import UNIT_NAMES, LabelAnswers, Slice
from .tables import Row, bars, part_of, percent, share_text, table

LABELS = 50
"""Most labels in the table of predictions."""

NAMED = 3
"""Most labels, words, or words that decide, that a sentence names."""

MATRIX_LABELS = 8
"""Most labels of a matrix; of more labels the table says what each is most often taken for."""

UNREAD = "unknown to the tokenizer"
"""A part of the note on a text whose words the model mostly does not know."""

CAPTION = "Right labels in rows, predictions in columns"


def overview_card(summary: Summary) -> Card:
    """Return the card on top: what was predicted, what of it is right, which words speak for it; and a picture."""
    sentences = [predicted_sentence(summary), right_sentence(summary), word_sentence(summary), unread_sentence(summary)]
    blocks: list[Block] = [Paragraph(sentence, lead=True) for sentence in sentences if sentence]
    if _has_matrix(summary):
        blocks.append(matrix_table(summary.matrix))
    else:
        blocks.append(_label_bars(summary))
    return Card(blocks, "In short", result=False)


def _has_matrix(summary: Summary) -> bool:
    """Return whether there are right labels, and few enough for a matrix of right labels and predictions."""
    return 1 < len(summary.matrix) <= MATRIX_LABELS


# --- sentences --------------------------------------------------------------------------------------------------------


def predicted_sentence(summary: Summary) -> str:
    """Say how often the model predicted which label."""
    rows = summary.rows
    inputs = UNIT_NAMES[summary.unit].inputs
    if summary.outputs == "value":
        return f"The model gave a value to each of {rows:,} {inputs}."
    answers = []
    for label, count in list(summary.labels.items())[:NAMED]:
        answers.append(f'"{label}" for {count:,} ({percent(count / rows)})')
    if len(summary.labels) > len(answers):
        answers.append("other labels for the rest")
    return f"Of {rows:,} {inputs} the model answers {_joined_with_and(answers)}."


def right_sentence(summary: Summary) -> str:
    """Say how many answers are right, and of which label most are missed; empty without right labels."""
    right = summary.right
    if right is None:
        return ""
    unlabelled = "" if right.texts == summary.rows else " that have a right label"
    interval = f"95% interval {percent(right.low)} to {percent(right.high)}"
    sentence = f"Of {right.texts:,} answers{unlabelled} {right.part:,} are right ({percent(right.value)}; {interval})."
    return " ".join(filter(None, [sentence, _most_missed(summary.matrix)]))


def _most_missed(matrix: Sequence[LabelAnswers]) -> str:
    """Say which label is missed in the largest share of its texts; empty if none is missed."""
    missed = [answers for answers in matrix if answers.right < answers.texts]  # each of these has texts
    if not missed:
        return ""
    worst = min(missed, key=lambda answers: (answers.right / answers.texts, answers.label))
    return f'Most missed is "{worst.label}": {part_of(worst.texts - worst.right, worst.texts)} are answered otherwise.'


def word_sentence(summary: Summary) -> str:
    """Say which words speak most surely for the labels, and whether that was tested; and what decides by itself."""
    words_of_labels = []
    for label in summary.labels:
        words = [f'"{unit.text}"' for unit in summary.highest if unit.label == label]  # the surest first
        if words:
            words_of_labels.append(f'for "{label}": {", ".join(words[:NAMED])}')
    if not words_of_labels:
        return ""
    listed = "; ".join(words_of_labels[:NAMED])
    sentence = f"By their scores, which were not tested, these {summary.unit} speak most surely {listed}."
    if summary.tested:
        sentence = f"The answer rests most surely on these {summary.unit}, without which it falls: {listed}."
    deciding = [reason.name for reason in summary.reasons if reason.decides]
    if deciding:
        sentence += f" These decide by themselves: {', '.join(deciding[:NAMED])}."
    return sentence


def unread_sentence(summary: Summary) -> str:
    """Say of how many rows the model does not know many words; empty if there are none."""
    rows = sum(note.rows for note in summary.notes if UNREAD in note.text)
    if not rows:
        return ""
    return f"The model does not know many words of {part_of(rows, summary.rows)} {UNIT_NAMES[summary.unit].inputs}."


def _joined_with_and(parts: Sequence[str]) -> str:
    """Return parts of a sentence, joined by commas, with "and" before the last."""
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


# --- tables -----------------------------------------------------------------------------------------------------------


def matrix_table(matrix: Sequence[LabelAnswers]) -> Block:
    """Return the table of right labels against predictions, each cell coloured by its share of the row.

    Its last column and its last row have the recall and the precision of each label.
    """
    labels = [answers.label for answers in matrix]
    rows: list[Row] = []
    for answers in matrix:
        cells = [_count_cell(answers, label) for label in labels]
        rows.append([answers.label, *cells, share_text(answers.recall)])
    precision = [cell(share_text(answers.precision)) for answers in matrix]
    rows.append(["right of these", *precision, ""])
    columns = ["labelled", *labels, "found"]
    matrix_of_counts = table(columns, rows, words=len(labels) + 1, caption=CAPTION)
    return replace(matrix_of_counts, sortable=False)  # its last row stays the last


def _count_cell(answers: LabelAnswers, prediction: str) -> Cell:
    """Return the cell that says how many texts of a right label get a prediction."""
    count = answers.predictions.get(prediction, 0)
    strength = count / answers.texts if answers.texts else 0.0  # a label may be predicted and never right
    return cell(f"{count:,}", float(count), strength=strength)


def right_answers_card(summary: Summary) -> list[Card]:
    """Return the table of right answers by label, where these are too many for a matrix; none otherwise."""
    if len(summary.matrix) <= MATRIX_LABELS:
        return []
    rows: list[Row] = []
    for answers in summary.matrix[:LABELS]:
        shares = (share_text(answers.recall), share_text(answers.precision))
        rows.append([answers.label, *map(cell, shares), cell(_taken_for(answers))])
    columns = ["labelled", "found", "right of those predicted so", "otherwise taken for"]
    return [Card([table(columns, rows)], "Right answers by label", result=False)]


def _taken_for(answers: LabelAnswers) -> str:
    """Return the wrong predictions of a label's texts, the most frequent first."""
    wrong = []
    for label, count in answers.predictions.items():
        if label != answers.label:
            wrong.append(f"{label} ({count:,})")
    return ", ".join(wrong[:NAMED])


def predictions_card(summary: Summary) -> Card:
    """Return the card of the run, with the predictions where these are not on top."""
    facts = [(UNIT_NAMES[summary.unit].inputs, f"{summary.rows:,}"), ("method", summary.method)]
    facts.append(("model", model_text(summary.model)))
    if summary.layer is not None:
        facts.append(("layer", str(summary.layer)))
    header = Header("", facts)
    if not _has_matrix(summary):  # then the card on top has the predictions
        return Card([header], "The run", result=False)
    return Card([header, _label_bars(summary)], "Predictions", result=False)


def _label_bars(summary: Summary) -> Block:
    """Return the predicted labels with bars and, with right labels, how many of each are right."""
    precision = {answers.label: share_text(answers.precision) for answers in summary.matrix}
    labels = list(summary.labels.items())[:LABELS]
    shares = [count / summary.rows for _, count in labels]
    drawn = bars([(share, ()) for share in shares])  # without intervals
    rows: list[Row] = []
    for (label, count), share, bar in zip(labels, shares, drawn, strict=True):
        row: Row = [label, part_of(count, summary.rows)]
        if precision:
            row.append(precision.get(label, ""))  # empty if only rows without a right label are answered so
        rows.append([*row, Cell(value=share, bar=bar)])
    columns = ["prediction", UNIT_NAMES[summary.unit].inputs]
    if precision:
        columns.append("right of these")
    return table([*columns, ""], rows, stacked=bool(precision))


def slice_cards(slices: Sequence[Slice]) -> list[Card]:
    """Return a card for each column by whose values the rows were counted."""
    by_column = groupby(slices, key=lambda slice_: slice_.column)  # slices of a column stand together
    return [_slice_card(column, list(of_column)) for column, of_column in by_column]


def _slice_card(column: str, slices: Sequence[Slice]) -> Card:
    """Return the card of a column: how many rows each value has, how many are right, and what is predicted."""
    predictions: Counter[str] = Counter()
    for slice_ in slices:
        predictions.update(slice_.labels)
    labels = [label for label, _ in predictions.most_common(NAMED)]  # of all slices; each has a column
    is_judged = any(slice_.accuracy is not None for slice_ in slices)
    rows: list[Row] = []
    for slice_ in slices:
        right = [share_text(slice_.accuracy)] if is_judged else []
        counts = [part_of(slice_.labels.get(label, 0), slice_.rows) for label in labels]
        rows.append([slice_.value, f"{slice_.rows:,}", *right, *counts])
    name = one_line(column)
    unit = f" in {slices[0].unit}" if slices[0].unit else ""  # of lengths, such as "in words"
    right_column = ["right"] if is_judged else []
    columns = [f"{name}{unit}", "rows", *right_column, *(f'"{label}"' for label in labels)]
    return Card([table(columns, rows, stacked=True)], f'Answers by "{name}"{unit}', result=False)
