"""The first cards of a summary: three sentences and a picture, the predictions, the right answers, and slices."""

from collections.abc import Sequence
from dataclasses import replace

from ...render.blocks import Block, Card, Cell, Header, Paragraph, cell
from ...render.describe import model_text
from ..summaries.summary import Summary
from ..summaries.units import NAMES, LabelAnswers, Slice
from .tables import bars, part_of, percent, share_text, table

LABELS = 50
"""Most labels in the table of predictions."""

NAMED = 3
"""Most labels, words, or words that decide, that a sentence names."""

SQUARE = 8
"""Most labels of a matrix; of more labels the table says what each is most often taken for."""

UNREAD = "unknown to the tokenizer"
"""What the note on a text says of which the model does not know many words."""

CAPTION = "Right labels in rows, predictions in columns"


def overview_card(summary: Summary) -> Card:
    """Return the card on top: what was predicted, what of it is right, which words speak for it; and a picture."""
    sentences = [predicted_sentence(summary), *right_sentences(summary), *word_sentences(summary)]
    sentences += unread_sentences(summary)
    blocks: list[Block] = [Paragraph(sentence, lead=True) for sentence in sentences]
    blocks.append(matrix_table(summary.matrix) if _has_square(summary) else _label_bars(summary))
    return Card(blocks, "In short", result=False)


def _has_square(summary: Summary) -> bool:
    """Return whether right labels and predictions are few enough for a matrix."""
    return 1 < len(summary.matrix) <= SQUARE


def predicted_sentence(summary: Summary) -> str:
    """Say how often the model predicted which label."""
    rows, inputs = summary.rows, NAMES[summary.unit][1]
    counted = [f'"{label}" for {count:,} ({percent(count / rows)})' for label, count in summary.labels.items()][:NAMED]
    more = len(summary.labels) - len(counted)
    counted += [f"{more:,} other labels for the rest"] if more else []
    return f"Of {rows:,} {inputs} the model answers {_listed(counted)}."


def right_sentences(summary: Summary) -> list[str]:
    """Say how many answers are right, and of which label most are missed; nothing without right labels."""
    right = summary.right
    if right is None:
        return []
    interval = f"95% interval {percent(right.low)} to {percent(right.high)}"
    unlabelled = "" if right.texts == summary.rows else " that have a right label"
    sentence = f"Of {right.texts:,} answers{unlabelled} {right.part:,} are right ({percent(right.value)}; {interval})."
    known = [answers for answers in summary.matrix if answers.recall is not None]
    if not known:
        return [sentence]
    worst = min(known, key=lambda answers: (answers.right / answers.texts, answers.label))
    missed = worst.texts - worst.right
    return [f'{sentence} Most missed is "{worst.label}": {part_of(missed, worst.texts)} are answered otherwise.']


def word_sentences(summary: Summary) -> list[str]:
    """Say which words speak most surely for the labels, and whether that was tested; and what decides by itself."""
    named = []
    for label in summary.labels:
        words = [f'"{unit.text}"' for unit in summary.highest if unit.label == label][:NAMED]
        named += [f'for "{label}": {", ".join(words)}'] if words else []
    if not named:
        return []
    listed = "; ".join(named[:NAMED])
    if summary.tested:
        sentence = f"The answer rests most surely on these {summary.unit}, without which it falls: {listed}."
    else:
        sentence = f"By their scores, which were not tested, these {summary.unit} speak most surely {listed}."
    deciding = [f'"{reason.name}"' for reason in summary.reasons if reason.decides]
    return [f"{sentence} These decide by themselves: {', '.join(deciding[:NAMED])}." if deciding else sentence]


def unread_sentences(summary: Summary) -> list[str]:
    """Say of how many rows the model does not know many words; nothing if there are none."""
    rows = sum(note.rows for note in summary.notes if UNREAD in note.text)
    inputs = NAMES[summary.unit][1]
    return [f"The model does not know many words of {part_of(rows, summary.rows)} {inputs}."] if rows else []


def matrix_table(matrix: Sequence[LabelAnswers]) -> Block:
    """Return right labels against predictions, each cell coloured by its share of the row."""
    labels = [answers.label for answers in matrix]
    rows: list[list[str | Cell]] = []
    for answers in matrix:
        cells = [_count_cell(answers.predictions.get(label, 0), answers.texts) for label in labels]
        rows.append([answers.label, *cells, share_text(answers.recall)])
    precision = [cell(share_text(answers.precision)) for answers in matrix]
    rows.append(["right of these", *precision, ""])
    matrix_of_counts = table(["labelled", *labels, "found"], rows, words=len(labels) + 1, caption=CAPTION)
    return replace(matrix_of_counts, sortable=False)  # its last row stays the last


def right_answers_card(summary: Summary) -> list[Card]:
    """Return the table of right answers by label, where these are too many for a matrix; none otherwise."""
    if len(summary.matrix) <= SQUARE:
        return []
    rows: list[list[str | Cell]] = []
    for answers in summary.matrix[:LABELS]:
        wrong = [(label, count) for label, count in answers.predictions.items() if label != answers.label]
        taken_for = ", ".join(f"{label} ({count:,})" for label, count in wrong[:NAMED])
        found, right = share_text(answers.recall), share_text(answers.precision)
        rows.append([cell(answers.label), cell(found), cell(right), cell(taken_for)])
    columns = ["labelled", "found", "right of those predicted so", "otherwise taken for"]
    return [Card([table(columns, rows)], "Right answers by label", result=False)]


def predictions_card(summary: Summary) -> Card:
    """Return the card of the predicted labels: how often each was predicted and, with a gold column, is right."""
    inputs = NAMES[summary.unit][1]
    facts = [(inputs, f"{summary.rows:,}"), ("method", summary.method), ("model", model_text(summary.model))]
    facts += [] if summary.layer is None else [("layer", str(summary.layer))]
    picture = [_label_bars(summary)] if _has_square(summary) else []  # otherwise it is on top
    return Card([Header("", facts), *picture], "Predictions" if picture else "The run", result=False)


def slice_cards(slices: Sequence[Slice]) -> list[Card]:
    """Return a card for each column by whose values the rows were counted."""
    cards = []
    for column in dict.fromkeys(each.column for each in slices):
        of_column = [each for each in slices if each.column == column]
        labels = list(dict.fromkeys(label for each in of_column for label in each.labels))[:NAMED]
        judged = any(each.accuracy is not None for each in of_column)
        rows = [_slice_row(each, labels, judged=judged) for each in of_column]
        columns = [column, "rows", *(["right"] if judged else []), *(f'"{label}"' for label in labels)]
        cards.append(Card([table(columns, rows, stacked=True)], f'Answers by "{column}"', result=False))
    return cards


def _slice_row(each: Slice, labels: Sequence[str], *, judged: bool) -> list[str | Cell]:
    """Return the row of a slice: how many rows it has, how many are right, and how often each label is predicted."""
    predicted = [part_of(each.labels.get(label, 0), each.rows) for label in labels]
    return [each.value, f"{each.rows:,}", *([share_text(each.accuracy)] if judged else []), *predicted]


def _label_bars(summary: Summary) -> Block:
    """Return the predicted labels with bars."""
    rows: list[list[str | Cell]] = []
    precision = {answers.label: share_text(answers.precision) for answers in summary.matrix}
    labels = list(summary.labels.items())[:LABELS]
    drawn = bars([(count / summary.rows, ()) for _, count in labels])
    for (label, count), bar in zip(labels, drawn, strict=True):
        right = [precision.get(label, "")] if precision else []
        predicted = part_of(count, summary.rows)
        rows.append([label, predicted, *right, Cell(value=count / summary.rows, bar=bar)])
    columns = ["prediction", NAMES[summary.unit][1], *(["right of these"] if precision else []), ""]
    return table(columns, rows, stacked=bool(precision))


def _count_cell(count: int, texts: int) -> Cell:
    """Return a cell of the matrix."""
    return cell(f"{count:,}", float(count), strength=count / texts if texts else 0.0)


def _listed(parts: Sequence[str]) -> str:
    """Return parts of a sentence with "and" before the last."""
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))
