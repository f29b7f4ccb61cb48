"""Summaries as tables with bars and links to texts, for the terminal and as a page."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ...render.blocks import (
    Bar,
    Block,
    Card,
    Cell,
    Column,
    Fold,
    Header,
    Paragraph,
    Piece,
    Sentence,
    Sentences,
    Table,
    cell,
)
from ...render.charts import Legend, number
from ...render.describe import model_text, shortened
from ...render.html import page as drawn_page
from ...results.verification import LEAST_LOSS
from .citations import QUESTION, CitationSummary, SourceUse
from .summary import Summary
from .units import NAMES, SIGNALS, Unit, WrongAnswer

NOTABLE = 0.01
"""A note is shown from this share of scores on special tokens on."""

EXAMPLE = 60
"""Most characters of a text in a table."""

LABELS = 50
"""Most labels in the table of predictions."""

WITHOUT = ["deleting it takes", "prediction changes"]
"""Columns of the effects of deleting a word, in the unit of its score."""

MEANS = (
    'A positive mean score speaks for the answer "{label}", a negative one against it; the surest ones, each with its '
    '95% interval. "occurrences": how often it stands in texts that were explained for this answer.'
)

DELETED = (
    ' "deleting it takes": what the label\'s logit loses where the model reads a text without the word; "prediction '
    'changes": in that share of these texts.'
)

FITTING = 5
"""Most columns that fit beside each other on a narrow page."""

SIDES = "← against | for →"
"""The heading of bars with two sides."""


class Line(NamedTuple):
    """A row of a table.

    Attributes:
        value: Where its bar ends, None for none.
        interval: The ends of the value's interval.
    """

    texts: Sequence[str]
    value: float | None = None
    interval: tuple[float, float] | None = None
    examples: Sequence[str] = ()


class Section(NamedTuple):
    """A table with bars.

    Attributes:
        bars: The heading of its bars; empty if the column before them has it, None without bars.
        note: A text above the table.
        texts: The columns of words after the first; all others are numbers.
    """

    heading: str
    columns: Sequence[str]
    lines: Sequence[Line]
    bars: str | None = None
    note: str = ""
    texts: Sequence[str] = ()


def summary_page(summary: Summary | CitationSummary) -> str:
    """Return a summary as a self-contained HTML page."""
    what = "What the answers rest on" if isinstance(summary, CitationSummary) else "What the model looks at"
    return drawn_page(summary_cards(summary), f"{what}: {summary.folder}")


def summary_cards(summary: Summary | CitationSummary) -> list[Card]:
    """Return the cards of a summary: the accuracy first, the limits of the figures last."""
    if isinstance(summary, CitationSummary):
        return _citation_cards(summary)
    result_cards = [_predictions(summary)]
    result_cards += [_wrong_answers(summary.wrong)] if summary.wrong else []
    result_cards += [_card(section, summary.texts) for section in _sections(summary)]
    if summary.texts:
        rows = [[cell(name, anchor=anchor), cell(summary.texts[name])] for name, anchor in _anchors(summary.texts)]
        texts = Table([Column("id"), Column("text")], rows)
        result_cards.append(Card([Fold("Texts of the examples", [texts], opened=True)], result=False))
    return [*result_cards, _limits(summary)]


def _predictions(summary: Summary) -> Card:
    """Return the card of the predicted labels: how often each was predicted and, with a gold column, is right."""
    inputs = NAMES[summary.unit][1]
    rows = max(summary.rows, 1)
    facts = [(inputs, f"{summary.rows:,}"), ("method", summary.method), ("model", model_text(summary.model))]
    facts += [] if summary.layer is None else [("layer", str(summary.layer))]
    columns = ["prediction", inputs, *(["right"] if summary.right else []), "share"]
    lines = []
    for label, n in list(summary.labels.items())[:LABELS]:
        right = [f"{summary.right[label]:.1%}" if label in summary.right else ""] if summary.right else []
        lines.append(Line([label, f"{n:,}", *right, f"{n / rows:.1%}"], n / rows))
    table = _table(Section("", columns, lines, ""), {})
    heading = "Predictions" if summary.accuracy is None else f"{summary.accuracy:.1%} of the answers are right"
    return Card([Header("", facts), table], heading, result=False)


def _wrong_answers(answers: Sequence[WrongAnswer]) -> Card:
    """Return wrong answers with the words that they rest on."""

    def caption(answer: WrongAnswer) -> str:
        chance = "" if answer.probability is None else f", {answer.probability:.1%}"
        return f"{answer.id}: predicted {answer.prediction}{chance}, labelled {answer.gold}"

    if not any(answer.pieces for answer in answers):
        lines = [[a.id, a.prediction, "" if a.probability is None else f"{a.probability:.1%}", a.gold] for a in answers]
        section = Section(
            "Wrong answers",
            ["id", "predicted", "probability", "labelled"],
            [Line(answer_texts) for answer_texts in lines],
        )
        return _card(section, {})
    note = "The surest come first, each with its id, or its row from 0 on."
    legend = Legend("for the prediction", "against it", ["each text by its own largest score"])
    sentences = []
    for answer in answers:
        largest = max((abs(score) for text in answer.pieces for _, score in text if score), default=1.0)
        texts = [[_piece(*scored, largest) for scored in text] for text in answer.pieces]
        sentences.append(Sentence(caption(answer), texts))
    return Card([Paragraph(note), Sentences(sentences, small=True), legend], "Wrong answers", result=False)


def _piece(text: str, score: float | None, largest: float) -> Piece:
    if score is None or not text.strip():
        return Piece(text)
    return Piece(text, score / largest, name=text.strip(), number=number(score, largest))


def _limits(summary: Summary) -> Card:
    """Return the card on what the figures leave out."""
    notes = [] if summary.complete else ["the run is not finished"]
    notes += [f"rows without a result: {summary.errors:,}"] if summary.errors else []
    if summary.unknown:
        listed = ", ".join(f'"{label}" ({n:,})' for label, n in list(summary.unknown.items())[:FITTING])
        more = ", ..." if len(summary.unknown) > FITTING else ""
        notes.append(f"right labels that the model does not have, so that every answer is wrong: {listed}{more}")
    if summary.grids > 1:
        notes.append(f"the pictures have {summary.grids} different grids: row and column do not say what part it is")
    if summary.tried and not summary.mistakes:
        notes.append(
            f"none of {summary.tried:,} {summary.unit} is more often in wrong answers than chance would have it"
        )
    if summary.rare:
        left_out = f"{summary.rare:,} {summary.unit} that occur fewer than {summary.min_count} times"
        notes.append(f"{left_out} under a label are in no list")
    special_share = next((mass.mass for mass in summary.mass if mass.kind == "special"), 0.0)
    if special_share >= NOTABLE:
        notes.append(f"{special_share:.1%} of the scores are on special tokens, which are in no list of {summary.unit}")
    counted = summary.unit if summary.unit in SIGNALS.values() else "tokens"
    mass_lines = [Line([m.kind, f"{m.tokens:.1%}", f"{m.mass:.1%}"], m.mass) for m in summary.mass]
    columns = ["kind", f"share of {counted}", "share of scores"]
    blocks: list[Block] = [Header("", [], notes), _table(Section("", columns, mass_lines, ""), {})]
    for heading, first_column, row_notes in (
        ("Notes on results", "note", summary.notes),
        ("Rows without a result", "reason", summary.failures),
    ):
        if row_notes:
            lines = [Line([row.text, f"{row.rows:,}", ", ".join(row.examples)]) for row in row_notes]
            blocks.append(_table(Section(heading, [first_column, "rows", "ids"], lines), {}, heading))
    return Card(blocks, "What these figures leave out", result=False)


def _citation_cards(summary: CitationSummary) -> list[Card]:
    """Return the cards of cited answers: verdicts, used sources, contradictions, and unsupported sentences."""
    tested, sentences = summary.verify is not None, max(summary.sentences, 1)
    names = KINDS if summary.of_conversations else {}
    sources, one = ("conversation", "message") if summary.of_conversations else ("documents", "document")
    verdicts = {
        f"rest on the {sources}": summary.resting,
        "contradict a source": summary.contradicting,
        f"are not in the {sources}": summary.unsupported,
        "cannot be told" if tested else "were not tested": summary.undecided,
    }
    facts = [("answers", f"{summary.rows:,}"), ("sentences", f"{summary.sentences:,}")]
    facts += [
        (f"that {verdict}", f"{count:,} ({count / sentences:.1%})")
        for verdict, count in verdicts.items()
        if count is not None
    ]
    unused = f"{'tools whose results' if summary.of_conversations else 'documents that'} no answer uses"
    facts += [(unused, f"{len(summary.unused):,}"), ("method", summary.method), ("model", model_text(summary.model))]
    notes = [] if tested else ["nothing was left out to test it: attribute with --verify auto"]
    notes += [f"rows without a result: {summary.errors:,}"] if summary.errors else []
    notes += [] if summary.complete else ["the run is not finished"]
    columns = [one, "answers with it", "answers citing it", *(MEASURED if tested else []), "mean share"]
    contradictions = [Line([c.id, f"{c.gain:.1f}", c.rather, c.source, c.text.strip()]) for c in summary.contradictions]
    worst = [Line([a.id, f"{a.unsupported} of {a.sentences}", a.completion.strip()]) for a in summary.worst]
    of_contradictions = ["id", "by nats", "rather said", "source", "text"]
    sections = [
        Section(
            "What the answers rest on", columns, [_line_of_use(use, names) for use in summary.uses], "", USED * tested
        ),
        Section(unused.capitalize(), columns, [_line_of_use(use, names) for use in summary.unused]),
        Section("Sentences that contradict a source", of_contradictions, contradictions, texts=of_contradictions[2:]),
        Section(
            f"Answers with sentences that are not in the {sources}",
            ["id", "sentences", "answer"],
            worst,
            texts=["answer"],
        ),
    ]
    heading = "Conversations" if summary.of_conversations else "Answers"
    cards = [_card(section, {}) for section in sections if section.lines]
    return [Card([Header("", facts, notes)], heading, result=False), *cards]


MEASURED = ["left out", "used", "contradicted", "mean loss"]
"""Columns of the losses without a document or a kind of message: counts of answers, and nats."""

USED = (
    f'"left out": answers for which a source of it was left out; "used": those with a sentence that loses more than '
    f'{LEAST_LOSS:g} nat without one; "mean loss": the most that a sentence loses without one, in nats.'
)

KINDS = {
    QUESTION: "last message of the user",
    "user": "earlier message of the user",
    "assistant": "earlier answer",
}
"""Kinds of messages whose names in tables are others."""


def _line_of_use(use: SourceUse, names: Mapping[str, str]) -> Line:
    """Return the line of a document or a kind of message; `names` has other names for some of them."""
    share = use.cited / use.answers
    cells = [f"{names.get(use.name, use.name)} {use.tool}".strip(), f"{use.answers:,}", f"{use.cited:,} ({share:.1%})"]
    if (losses := use.measured) is not None:
        cells += [f"{losses.left_out:,}", f"{losses.used:,}", f"{losses.contradicted:,}"]
        cells.append("" if losses.loss is None else f"{losses.loss:.1f}")
    return Line([*cells, f"{use.share:.1%}"], share)


def _sections(summary: Summary) -> Iterator[Section]:
    """Yield the tables of words, or other units: those of wrong answers, those of each label, and a difference."""
    unit_heading, inputs = NAMES[summary.unit]
    mistake_lines = [
        Line([r.text, f"{r.wrong:,}", f"{r.right:,}", f"{r.chance:.1g}", f"{r.error_rate:.1%}"], r.error_rate)
        for r in summary.mistakes
    ]
    if mistake_lines:
        columns = [unit_heading, "in wrong answers", "in right answers", "by chance", "share wrong"]
        what = "Words" if unit_heading == "token" else summary.unit.capitalize()
        # `chance` bounds the probability that any of the units is so often in wrong answers if no unit matters.
        note = f'"by chance": at most so probable for any of {summary.tried:,} {summary.unit}, if they did not matter.'
        yield Section(f"{what} that are more often in wrong answers", columns, mistake_lines, "", note)
    for label, units in _by_label(summary).items():
        has_effects = any(unit.effect for unit in units)
        columns = [unit_heading, "occurrences", *(WITHOUT if has_effects else []), "mean score"]
        note = MEANS.format(label=label).replace("texts", inputs) + (DELETED if has_effects else "")
        lines = [_unit_line(unit, has_effects=has_effects) for unit in units]
        yield Section(f'{summary.unit.capitalize()} for and against "{label}"', columns, lines, SIDES, note)
    if summary.difference is not None:
        yield from _difference(summary.difference, unit_heading, inputs)


def _by_label(summary: Summary) -> dict[str, list[Unit]]:
    """Return the listed units of each label by their mean scores, positive and negative."""
    listed: dict[str, dict[str, Unit]] = {}
    for listed_unit in (*summary.highest, *summary.against):
        listed.setdefault(listed_unit.label, {}).setdefault(listed_unit.text, listed_unit)
    return {label: sorted(units.values(), key=lambda unit: -unit.mean) for label, units in listed.items()}


def _difference(difference: dict[str, Any], unit: str, inputs: str) -> Iterator[Section]:
    """Yield the tables of the differences to another run: changed answers, and scores of units.

    Args:
        difference: As in `Summary.difference`.
        unit: The heading of the column of units.
        inputs: What the runs explain, such as "texts".
    """
    share = difference["same answer"]
    same_answer = "" if share is None else f", {share:.1%} with the same answer"
    run = f"{difference['folder']} ({difference['model']})"
    note = f"{run}: {difference['texts in both']:,} {inputs} in both{same_answer}."
    changed = [
        Line([f"{c['here']} / {c['there']}", f"{c['texts']:,}"], examples=c["examples"])
        for c in difference["changed answers"]
    ]
    yield Section("Answers that differ from the other run's", ["here / there", inputs], changed, note=note)
    shifts = [
        Line([f"{s['text']} ({s['label']})", f"{s['there']:.3g}", f"{s['here']:.3g}"], s["here"] - s["there"])
        for s in difference["shifts"]
    ]
    yield Section("Mean scores that differ most", [unit, "there", "here"], shifts, "← there   here →")


def _unit_line(unit: Unit, *, has_effects: bool) -> Line:
    """Return the line of a unit; with `has_effects` the table has the columns `WITHOUT`, empty if none was measured."""
    cells = [unit.text, f"{unit.count:,}"]
    if (effect := unit.effect) is not None:
        cells += [_with_half(effect.mean, effect.high), "" if effect.changed is None else f"{effect.changed:.0%}"]
    elif has_effects:
        cells += [""] * len(WITHOUT)
    cells.append(_with_half(unit.mean, unit.high))
    return Line(cells, unit.mean, (unit.low, unit.high), unit.examples)


def _with_half(mean: float, high: float) -> str:
    """Return a mean ± half the width of its interval, to three decimals."""
    half_width = "" if high != high or high == mean else f" ± {round(high - mean, 3):.2g}"
    return f"{round(mean, 3) + 0.0:.3g}{half_width}"  # no minus before a zero


def _anchors(texts: Iterable[str]) -> list[tuple[str, str]]:
    """Return the id of each text with the name of its place on the page."""
    return [(text_id, f"text-{index}") for index, text_id in enumerate(texts)]


def _card(section: Section, texts: Mapping[str, str]) -> Card:
    """Return the card of a section; the arguments are those of `_table`."""
    blocks: list[Block] = [Paragraph(section.note)] if section.note else []
    return Card([*blocks, _table(section, texts)], section.heading, result=False)


def _links(line: Line, texts: Mapping[str, str]) -> dict[str, str]:
    """Return the first example of a line, from near its word on, with its place on the page; ids without texts."""
    example = next((example for example in line.examples if example in texts), None)
    if example is None:
        return dict.fromkeys(line.examples, "")
    text = " ".join(texts[example].split())
    start = text.lower().find(line.texts[0])
    if start > EXAMPLE // 2:
        start = text.rfind(" ", 0, start - EXAMPLE // 3) + 1
        text = "\N{HORIZONTAL ELLIPSIS}" + text[start:]
    return {shortened(text, EXAMPLE): dict(_anchors(texts))[example]}


def _table(section: Section, texts: Mapping[str, str], caption: str = "") -> Table:
    """Return the table of a section, with bars that begin at 0, and examples.

    Args:
        section: The section.
        texts: The texts of examples on the page, by their ids.
        caption: The caption of the table.
    """
    has_bars, has_examples = section.bars is not None, any(line.examples for line in section.lines)
    bars = _bars(section.lines)
    rows = []
    for line, bar in zip(section.lines, bars, strict=True):
        row = [cell(text) for text in line.texts]
        if has_bars:
            row.append(Cell(value=line.value, bar=bar))
        if has_examples:
            row.append(Cell(links=_links(line, texts)))
        rows.append(row)
    columns = [
        Column(name, numbers=index > 0 and name not in section.texts) for index, name in enumerate(section.columns)
    ]
    if has_bars:
        columns.append(Column(section.bars or ""))
    if has_examples:
        columns.append(Column("example" if texts else "examples"))
    return Table(columns, rows, caption, sortable=True, stacked=len(columns) > FITTING)


def _bars(lines: Sequence[Line]) -> list[Bar | None]:
    """Return the bar of each line, on one scale that holds 0 and the values and intervals of all lines."""
    ends = [end for line in lines for end in (line.value, *(line.interval or ())) if end is not None]
    low, high = min([0.0, *ends]), max([0.0, *ends])

    def position(value: float) -> float:
        return (value - low) / (high - low) if high > low else 0.0

    bars: list[Bar | None] = []
    for line in lines:
        interval = (None, None) if line.interval is None else map(position, line.interval)
        bars.append(None if line.value is None else Bar(position(0.0), position(line.value), *interval))
    return bars
