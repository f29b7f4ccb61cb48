"""Summaries as cards with tables, bars and links to texts, for the terminal and as a page."""

from collections.abc import Sequence

from ...render.blocks import Block, Card, Fold, Header, Paragraph, Sentences, cell
from ...render.charts import Legend
from ...render.html import page as drawn_page
from ...render.layout import layout
from ...results.units.characters import one_line, shortened
from ..summaries.citations import CitationSummary
from ..summaries.summary import Summary
from ..summaries.units import WrongAnswer
from .citation_cards import citation_cards
from .overview import overview_card, predictions_card, right_answers_card, slice_cards
from .tables import BEGINNING, FITTING, LONG_TEXT, table, text_cell
from .word_cards import anchors, label_cards, reason_cards


def summary_page(summary: Summary | CitationSummary) -> str:
    """Return a summary as a self-contained HTML page."""
    title = "What the answers rest on" if isinstance(summary, CitationSummary) else "What the model looks at"
    return drawn_page(summary_cards(summary), f"{title}: {summary.folder}")


def summary_cards(summary: Summary | CitationSummary) -> list[Card]:
    """Return the cards of a summary, "In short" first, what the figures leave out last."""
    if isinstance(summary, CitationSummary):
        return citation_cards(summary)
    cards = [overview_card(summary), predictions_card(summary), *right_answers_card(summary)]
    cards += [*slice_cards(summary.slices), *reason_cards(summary.reasons)]
    cards += [*_wrong_answers(summary.wrong), *label_cards(summary)]
    return [*cards, *_texts(summary), _limits(summary)]


def _texts(summary: Summary) -> list[Card]:
    """Return the card of the texts that tables link to; none where no text was kept."""
    if not summary.texts:
        return []
    rows = [
        [cell(text_id, anchor=anchor), text_cell(summary.texts[text_id])] for text_id, anchor in anchors(summary.texts)
    ]
    return [Card([Fold("Texts of the examples", [table(["id", "text"], rows)])], result=False)]


def _wrong_answers(answers: Sequence[WrongAnswer]) -> list[Card]:
    """Return the card of wrong answers with the words that they rest on; none without any."""
    if not answers:
        return []
    if any(answer.result is None for answer in answers):  # pictures and sounds, which are not drawn
        rows = [[answer.id, answer.prediction, _probability(answer), answer.gold] for answer in answers]
        block = table(["id", "predicted", "probability", "labelled"], rows)
        return [Card([block], "Wrong answers", result=False)]
    note = Paragraph("The surest come first, each with its id, or its row from 0 on.")
    legend = Legend("for the prediction", "against it", ["each text by its own largest score"])
    return [Card([note, *map(_wrong_answer, answers), legend], "Wrong answers", result=False)]


def _wrong_answer(answer: WrongAnswer) -> Block:
    """Return a wrong answer as a text in colours, which a page folds where it is long."""
    predicted = ", ".join(filter(None, [answer.prediction, _probability(answer)]))
    caption = f"{answer.id}: predicted {predicted}, labelled {answer.gold}"
    if answer.rows > 1:
        caption += f" ({answer.rows} rows have this text)"
    caption += "".join(f" ({note})" for note in answer.notes)
    if answer.result is None:  # for the type alone: `_wrong_answers` draws those that have one
        return Paragraph(caption)
    text = " ".join((answer.result.text or "").split())
    coloured = Sentences([layout(answer.result).sentence(caption=caption)], small=True)
    if len(text) <= LONG_TEXT:
        return coloured
    return Fold(f"{caption}: {shortened(text, BEGINNING)}", [coloured], essential=True)


def _probability(answer: WrongAnswer) -> str:
    """Return the probability of a wrong answer; empty if it has none."""
    return "" if answer.probability is None else f"{answer.probability:.1%}"


def _limits(summary: Summary) -> Card:
    """Return the card on what the figures leave out."""
    blocks: list[Block] = [Header("", [], _limit_notes(summary))]
    for heading, first_column, row_notes in (
        ("Notes on results", "note", summary.notes),
        ("Rows without a result", "reason", summary.failures),
    ):
        if row_notes:
            rows = [[row.text, f"{row.rows:,}", ", ".join(row.examples)] for row in row_notes]
            blocks.append(table([first_column, "rows", "ids"], rows, caption=heading))
    return Card(blocks, "What these figures leave out", result=False)


def _limit_notes(summary: Summary) -> list[str]:
    """Return what the figures leave out, line by line."""
    units = summary.unit
    notes = [] if summary.complete else ["the run is not finished"]
    notes += [f"rows without a result: {summary.errors:,}"] if summary.errors else []
    if summary.unlabelled:
        notes.append(f"rows without a right label, which are neither right nor wrong: {summary.unlabelled:,}")
    if summary.unknown:
        first_labels = list(summary.unknown.items())[:FITTING]
        listed = ", ".join(f'"{one_line(label)}" ({count:,})' for label, count in first_labels)
        more = ", ..." if len(summary.unknown) > FITTING else ""
        notes.append(f"right labels that the model does not have, so that every answer is wrong: {listed}{more}")
    if summary.rare:
        left_out = f"{summary.rare:,} {units} that stand in fewer than {summary.min_texts} texts"
        notes.append(f"{left_out} under a label are in no list")
    return notes
