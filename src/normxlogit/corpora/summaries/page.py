"""Summaries as tables with bars and links to texts, for the terminal and as a page."""

from collections.abc import Iterable, Mapping, Sequence

from ...render.blocks import Bar, Block, Card, Cell, Column, Fold, Header, Paragraph, Sentences, Table, cell
from ...render.charts import Legend, number
from ...render.describe import model_text, shortened
from ...render.html import page as drawn_page
from ...render.layout import layout
from ...results.units.characters import one_line
from ...results.verification import likelihood_text
from ...text.same import find_text
from .citations import CitationSummary
from .summary import Summary
from .units import NAMES, Reason, Unit, WrongAnswer

NOTABLE = 0.01
"""A note is shown from this share of scores on special tokens on."""

EXAMPLE = 60
"""Most characters of a text in a table."""

LABELS = 50
"""Most labels in the table of predictions."""

MEANS = (
    'A positive mean score speaks for the answer "{label}", a negative one against it; the surest ones, each with its '
    '95% interval. "occurrences": how often it stands in texts that were explained for this answer.'
)

REASON_COLUMNS = [
    "what",
    "answer",
    "texts with it",
    "answered so",
    "of the scores",
    "put in: turned",
    "taken out: changed",
]

DECIDES = (
    "Each of these decides by itself: put into texts that the model answers otherwise, it turns most of the answers, "
    "whatever else the texts say. Look for it in the training data. "
)

NOTHING_DECIDES = "Nothing that was tested turns most answers by itself. The strongest: "

COUNTED = (
    '"put in: turned": of so many texts with another answer, how many get this one; "taken out: changed": of so many '
    "texts with this answer, how many lose it. Lengths were tested by reading texts of one answer as one text, which "
    "should have that answer: how many get this one."
)

COMPARED = 5
"""Most reasons that are not wrong in the table."""

FITTING = 5
"""Most columns that fit beside each other on a narrow page."""

SIDES = "← against | for →"
"""The heading of bars with two sides."""


def summary_page(summary: Summary | CitationSummary) -> str:
    """Return a summary as a self-contained HTML page."""
    what = "What the answers rest on" if isinstance(summary, CitationSummary) else "What the model looks at"
    return drawn_page(summary_cards(summary), f"{what}: {summary.folder}")


def summary_cards(summary: Summary | CitationSummary) -> list[Card]:
    """Return the cards of a summary: the accuracy first, the limits of the figures last."""
    if isinstance(summary, CitationSummary):
        return _citation_cards(summary)
    cards = [_predictions(summary), *_reasons(summary.reasons)]
    cards += [*_wrong_answers(summary.wrong), *_words_by_label(summary)]
    texts = [[cell(name, anchor=anchor), cell(summary.texts[name])] for name, anchor in _anchors(summary.texts)]
    if texts:  # that tables link to
        fold = Fold("Texts of the examples", [Table([Column("id"), Column("text")], texts)], opened=True)
        cards.append(Card([fold], result=False))
    return [*cards, _limits(summary)]


def _predictions(summary: Summary) -> Card:
    """Return the card of the predicted labels: how often each was predicted and, with a gold column, is right."""
    inputs = NAMES[summary.unit][1]
    rows = max(summary.rows, 1)
    facts = [(inputs, f"{summary.rows:,}"), ("method", summary.method), ("model", model_text(summary.model))]
    facts += [] if summary.layer is None else [("layer", str(summary.layer))]
    columns = ["prediction", inputs, *(["right"] if summary.right else []), "share", ""]
    lines: list[list[str | Cell]] = []
    labels = list(summary.labels.items())[:LABELS]
    for (label, n), bar in zip(labels, _bars([(n / rows, ()) for _, n in labels]), strict=True):
        right = [f"{summary.right[label]:.1%}" if label in summary.right else ""] if summary.right else []
        lines.append([label, f"{n:,}", *right, f"{n / rows:.1%}", Cell(value=n / rows, bar=bar)])
    heading = "Predictions" if summary.accuracy is None else f"{summary.accuracy:.1%} of the answers are right"
    return Card([Header("", facts), _table(columns, lines)], heading, result=False)


def _reasons(reasons: Sequence[Reason]) -> list[Card]:
    """Return the card of wrong reasons, beside the strongest others; none where nothing was measured."""
    if not reasons:
        return []
    wrong = [reason for reason in reasons if reason.is_wrong]
    comparable = [reason for reason in reasons if not reason.is_wrong][:COMPARED]
    blocks: list[Block] = [Paragraph((DECIDES if wrong else NOTHING_DECIDES) + COUNTED)]
    blocks += [_reason_table(wrong)] if wrong else []
    blocks += [Paragraph("The strongest others, for comparison:")] if wrong and comparable else []
    blocks += [_reason_table(comparable)] if comparable else []
    return [Card(blocks, "Wrong reasons" if wrong else "No wrong reason was found", result=False)]


def _reason_table(reasons: Sequence[Reason]) -> Table:
    """Return the table of what turns answers by itself."""
    lines = []
    for reason in reasons:
        answered = f"{reason.answered:.0%} (of all: {reason.usual:.0%})"
        shares = ("" if each is None else f"{each.part} of {each.texts}" for each in (reason.turned, reason.changed))
        name, of_scores = f'"{reason.name}"', reason.score_share
        name, scored = (reason.name, "") if of_scores is None else (name, f"{of_scores:.0%}")
        lines.append([name, reason.label, f"{reason.texts:,}", answered, scored, *shares])
    return _table(REASON_COLUMNS, lines, words=2)


def _wrong_answers(answers: Sequence[WrongAnswer]) -> list[Card]:
    """Return the card of wrong answers with the words that they rest on; none without any."""
    if not answers:
        return []
    chances = ["" if answer.probability is None else f"{answer.probability:.1%}" for answer in answers]
    if any(answer.result is None for answer in answers):
        lines = [[a.id, a.prediction, chance, a.gold] for a, chance in zip(answers, chances, strict=True)]
        table = _table(["id", "predicted", "probability", "labelled"], lines)
        return [Card([table], "Wrong answers", result=False)]
    note = "The surest come first, each with its id, or its row from 0 on."
    legend = Legend("for the prediction", "against it", ["each text by its own largest score"])
    sentences = []
    for answer, chance in zip(answers, chances, strict=True):
        predicted = ", ".join(filter(None, [answer.prediction, chance]))
        caption = f"{answer.id}: predicted {predicted}, labelled {answer.gold}"
        sentences += [layout(answer.result).sentence(caption=caption)] if answer.result else []
    return [Card([Paragraph(note), Sentences(sentences, small=True), legend], "Wrong answers", result=False)]


def _words_by_label(summary: Summary) -> list[Card]:
    """Return a card for each label: its listed units by their mean scores, positive and negative."""
    listed: dict[str, dict[str, Unit]] = {}
    for unit in (*summary.highest, *summary.against):
        listed.setdefault(unit.label, {}).setdefault(unit.text, unit)
    heading, inputs = NAMES[summary.unit]
    columns = [heading, "occurrences", "mean score", SIDES, "example" if summary.texts else "examples"]
    cards = []
    for label, units in listed.items():
        name = one_line(label)
        note = MEANS.format(label=name).replace("texts", inputs)
        by_score = sorted(units.values(), key=lambda unit: -unit.mean)
        bars = _bars([(unit.mean, (unit.low, unit.high)) for unit in by_score])
        scale = max(abs(unit.mean) for unit in by_score)
        rows: list[list[str | Cell]] = []
        for u, bar in zip(by_score, bars, strict=True):
            known = u.high == u.high and u.high != u.mean
            half_width = f" ± {number(u.high - u.mean, scale, signed=False)}" if known else ""
            mean = number(u.mean, scale) + half_width
            rows.append([u.text, f"{u.count:,}", mean, Cell(value=u.mean, bar=bar), _example(u, summary.texts)])
        title = f'{summary.unit.capitalize()} for and against "{name}"'
        cards.append(Card([Paragraph(note), _table(columns, rows)], title, result=False))
    return cards


def _limits(summary: Summary) -> Card:
    """Return the card on what the figures leave out."""
    notes = [] if summary.complete else ["the run is not finished"]
    notes += [f"rows without a result: {summary.errors:,}"] if summary.errors else []
    if summary.unlabelled:
        notes.append(f"rows without a right label, which are neither right nor wrong: {summary.unlabelled:,}")
    if summary.unknown:
        listed = ", ".join(f'"{one_line(label)}" ({n:,})' for label, n in list(summary.unknown.items())[:FITTING])
        more = ", ..." if len(summary.unknown) > FITTING else ""
        notes.append(f"right labels that the model does not have, so that every answer is wrong: {listed}{more}")
    units = summary.unit
    if summary.rare:
        left_out = f"{summary.rare:,} {units} that occur fewer than {summary.min_count} times"
        notes.append(f"{left_out} under a label are in no list")
    if summary.special >= NOTABLE:
        notes.append(f"{summary.special:.1%} of the scores are on special tokens, which are in no list of {units}")
    blocks: list[Block] = [Header("", [], notes)]
    for heading, first_column, row_notes in (
        ("Notes on results", "note", summary.notes),
        ("Rows without a result", "reason", summary.failures),
    ):
        if row_notes:
            lines = [[row.text, f"{row.rows:,}", ", ".join(row.examples)] for row in row_notes]
            blocks.append(_table([first_column, "rows", "ids"], lines, caption=heading))
    return Card(blocks, "What these figures leave out", result=False)


def _citation_cards(summary: CitationSummary) -> list[Card]:
    """Return the cards of cited answers: verdicts, contradictions, and unsupported sentences."""
    tested, sentences = summary.verify is not None, max(summary.sentences, 1)
    sources = "conversation" if summary.of_conversations else "documents"
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
    facts += [("method", summary.method), ("model", model_text(summary.model))]
    notes = [] if tested else ["nothing was left out to test it: attribute with --verify auto"]
    notes += [f"rows without a result: {summary.errors:,}"] if summary.errors else []
    notes += [] if summary.complete else ["the run is not finished"]
    heading = "Conversations" if summary.of_conversations else "Answers"
    cards = [Card([Header("", facts, notes)], heading, result=False)]
    if summary.contradictions:
        lines = [
            [c.id, c.rather, likelihood_text(c.gain) if c.gain else "", c.source, c.text.strip()]
            for c in summary.contradictions
        ]
        table = _table(["id", "rather said", "which is", "source", "text"], lines, words=5)
        cards.append(Card([table], "Sentences that contradict a source", result=False))
    if summary.worst:
        lines = [[a.id, f"{a.unsupported} of {a.sentences}", a.completion.strip()] for a in summary.worst]
        table = _table(["id", "sentences", "answer"], lines, words=3)
        cards.append(Card([table], f"Answers with sentences that are not in the {sources}", result=False))
    return cards


def _anchors(texts: Iterable[str]) -> list[tuple[str, str]]:
    """Return the id of each text with the name of its place on the page."""
    return [(text_id, f"text-{index}") for index, text_id in enumerate(texts)]


def _example(unit: Unit, texts: Mapping[str, str]) -> Cell:
    """Return the first example of a unit, from near its word on, with its place on the page; ids without texts."""
    example = next((example for example in unit.examples if example in texts), None)
    if example is None:
        return Cell(links=dict.fromkeys(unit.examples, ""))
    text = " ".join(texts[example].split())
    start = next((start for start, _ in find_text(text, unit.text)), 0)
    if start > EXAMPLE // 2:
        start = text.rfind(" ", 0, start - EXAMPLE // 3) + 1
        text = "\N{HORIZONTAL ELLIPSIS}" + text[start:]
    return Cell(links={shortened(text, EXAMPLE): dict(_anchors(texts))[example]})


def _table(columns: Sequence[str], rows: Sequence[Sequence[str | Cell]], *, words: int = 1, caption: str = "") -> Table:
    """Return a table; texts in the columns after the first `words` are numbers."""
    cells = [[cell(part) if isinstance(part, str) else part for part in row] for row in rows]
    numbers = [index >= words and isinstance(part, str) for index, part in enumerate(rows[0] if rows else columns)]
    headings = [Column(name, numbers=is_number) for name, is_number in zip(columns, numbers, strict=True)]
    return Table(headings, cells, caption, sortable=True, stacked=len(headings) > FITTING)


def _bars(values: Sequence[tuple[float, Sequence[float]]]) -> list[Bar]:
    """Return the bars of values with their intervals, if they have any, on one scale that holds 0 and all of them."""
    ends = [0.0, *(end for value, interval in values for end in (value, *interval))]
    low, high = min(ends), max(ends)

    def position(value: float) -> float:
        return (value - low) / (high - low) if high > low else 0.0

    return [Bar(position(0.0), position(value), *map(position, interval)) for value, interval in values]
