"""A summary for people: tables with bars and links to texts, for the terminal and as a page."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ..render.blocks import Bar, Card, Cell, Column, Header, Paragraph, Table, cell
from ..render.describe import model_text
from ..render.html import page as drawn_page
from ..results.messages import CONVERSATION, DOCUMENTS, Wording
from .answer_summary import AnswerSummary
from .conversation_summary import QUESTION, ConversationSummary
from .summary import Summary
from .units import NAMES, SIGNALS, Unit

NOTABLE = 0.01
"""Share of the scores on special tokens from which a note tells it."""


WITHOUT = ["deleting it takes", "prediction changes"]
"""Columns of what deleting a word changes, in the unit of its score."""


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


def page(summary: Summary | AnswerSummary | ConversationSummary) -> str:
    """Return a summary as a self-contained HTML page."""
    of_answers = isinstance(summary, AnswerSummary | ConversationSummary)
    what = "What the answers rest on" if of_answers else "What the model looks at"
    return drawn_page(cards(summary), f"{what}: {summary.folder}")


def cards(summary: Summary | AnswerSummary | ConversationSummary) -> list[Card]:
    """Return what drawings of a summary consist of."""
    if isinstance(summary, AnswerSummary | ConversationSummary):
        return _answer_cards(summary)
    facts = [
        (NAMES[summary.unit][1], f"{summary.rows:,}"),
        ("method", summary.method),
        ("model", model_text(summary.model)),
    ]
    notes = [f"{summary.errors:,} rows have no result"] if summary.errors else []
    notes += [] if summary.complete else ["the run is not finished"]
    if summary.grids > 1:
        notes.append(f"the pictures have {summary.grids} different grids: row and column do not say what part it is")
    if summary.rare:
        left_out = f"{summary.rare:,} {summary.unit} that stand at fewer than {summary.min_count} places"
        notes.append(f"{left_out} under a label are in no list")
    special = next((mass.mass for mass in summary.mass if mass.kind == "special"), 0.0)
    if special >= NOTABLE:
        notes.append(f"{special:.1%} of the scores are on special tokens, which are in no list of {summary.unit}")
    places = {text: f"text-{i}" for i, text in enumerate(summary.texts)}
    drawn = [Card([Header("", facts, notes)], "Corpus", result=False)]
    for heading, note, names, lines in _sections(summary):
        blocks = [Paragraph(note)] if note else []
        drawn.append(Card([*blocks, _table(heading, names, lines, places)], heading, result=False))
    if places:
        rows = [[cell(i, anchor=places[i]), cell(text)] for i, text in summary.texts.items()]
        drawn.append(Card([Table([Column("id"), Column("text")], rows)], "Texts", result=False))
    return drawn


def _answer_cards(summary: AnswerSummary | ConversationSummary) -> list[Card]:
    """Return what answers rest on: the counts, a table of what they use, and those with unsupported sentences."""
    share = summary.unsupported / max(summary.sentences, 1)
    names, counted, what, used = (
        _conversations(summary) if isinstance(summary, ConversationSummary) else _documents(summary)
    )
    facts = [
        ("answers", f"{summary.rows:,}"),
        ("sentences", f"{summary.sentences:,}"),
        (f"that do not rest on the {names.sources}", f"{summary.unsupported:,} ({share:.1%})"),
        *counted,
        ("method", summary.method),
        ("model", model_text(summary.model)),
    ]
    notes = [f"a sentence rests on the {names.sources} from a share of {summary.threshold:g} on"]
    notes += [f"{summary.errors:,} rows have no result"] if summary.errors else []
    notes += [] if summary.complete else ["the run is not finished"]
    worst = [Line([a.id, f"{a.unsupported} of {a.sentences}", a.completion.strip()]) for a in summary.worst]
    unsupported = f"Answers with sentences that do not rest on the {names.sources}"
    answer_cards = [Card([Header("", facts, notes)], what, result=False)]
    for heading, columns, lines in (*used, (unsupported, ["id", "sentences", "answer"], worst)):
        answer_cards.append(Card([_table(heading, columns, lines, {})], heading, result=False))
    return answer_cards


_Tables = list[tuple[str, list[str], list[Line]]]


def _documents(summary: AnswerSummary) -> tuple[Wording, list[tuple[str, str]], str, _Tables]:
    """Return how the sources are called, what is counted of them, a heading, and the table of the documents."""
    used = [Line([d.name, f"{d.answers:,}", f"{d.cited:,}"], d.cited / d.answers) for d in summary.documents]
    counted = [("documents that no answer cites", f"{summary.never_used:,}")]
    return (
        DOCUMENTS,
        counted,
        "Answers",
        [("Documents, the least used first", ["document", "answers", "citing it"], used)],
    )


def _conversations(summary: ConversationSummary) -> tuple[Wording, list[tuple[str, str]], str, _Tables]:
    """Return the same of conversations: what their answers rest on, and the tools whose results none cites."""
    used = [
        Line(
            [
                _kind(m.kind, m.tool),
                f"{m.conversations:,}",
                f"{m.cited:,} ({m.cited / m.conversations:.1%})",
                f"{m.share:.1%}",
            ],
            m.cited / m.conversations,
        )
        for m in summary.messages
    ]
    unused = [Line([tool.tool, f"{tool.conversations:,}", f"{tool.results:,}"]) for tool in summary.never_used]
    counted = [
        ("tools whose results no answer cites", f"{len(summary.never_used):,}"),
        ("conversations with a result that their answer does not cite", f"{summary.unused:,}"),
    ]
    columns = ["message", "conversations with it", "answers citing it", "mean share"]
    tables = [("What the answers rest on", columns, used)]
    if unused:
        tables.append(("Tools whose results no answer cites", ["tool", "conversations", "results"], unused))
    return CONVERSATION, counted, "Conversations", tables


def _kind(kind: str, tool: str) -> str:
    """Return what a kind of message is called in a table."""
    named = {QUESTION: "question", "user": "earlier message of the user", "assistant": "earlier answer"}
    return f"{named.get(kind, kind)} {tool}".strip()


def _sections(summary: Summary) -> Iterator[tuple[str, str, list[str], list[Line]]]:
    """Yield heading, note, names of the columns and lines of each table."""
    unit, inputs = NAMES[summary.unit]
    rows = max(summary.rows, 1)
    shares = [Line([label, f"{n:,}", f"{n / rows:.1%}"], n / rows) for label, n in summary.labels.items()]
    yield "Predictions", "", ["label", inputs, "share"], shares[:50]
    for heading, units, what in (
        ("largest mean score", summary.highest, "mean"),
        ("largest total score", summary.totals, "total"),
        ("most often against the prediction", summary.against, "against"),
    ):
        for label in dict.fromkeys(unit.label for unit in units):
            listed = [one for one in units if one.label == label]
            names = [unit, "places", "mean (± 95%)", *(WITHOUT if any(one.effect for one in listed) else [])]
            names += [what if what != "mean" else "total"]
            yield f"{label}: {heading}", "", names, [_unit(one, what) for one in listed]
    mass = [Line([m.kind, f"{m.tokens:.1%}", f"{m.mass:.1%}"], m.mass) for m in summary.mass]
    counted = summary.unit if summary.unit in SIGNALS.values() else "tokens"
    yield "Where the scores are", "", ["kind", f"share of {counted}", "share of scores"], mass
    if summary.failures:
        failed = [Line([one.reason, f"{one.rows:,}", ", ".join(one.examples)], one.rows) for one in summary.failures]
        yield "Rows without a result", "", ["reason", "rows", "ids"], failed
    if summary.accuracy is not None:
        wrong = [
            Line([r.text, f"{r.wrong:,}", f"{r.right:,}", f"{r.error_rate:.1%}", f"{r.z:+.1f}"], r.error_rate)
            for r in summary.mistakes
        ]
        note = f"{summary.accuracy:.1%} of the answers are right."
        names = [unit, "in wrong answers", "in right answers", "share wrong", "standard errors from all"]
        what = "Words" if unit == "token" else summary.unit.capitalize()
        yield f"{what} that differ between wrong and right answers", note, names, wrong
    if summary.difference is not None:
        yield from _difference(summary.difference, unit, inputs)


def _difference(difference: dict[str, Any], unit: str, inputs: str) -> Iterator[tuple[str, str, list[str], list[Line]]]:
    same = "" if difference["same answer"] is None else f", {difference['same answer']:.1%} with the same answer"
    note = f"{difference['folder']} ({difference['model']}): {difference['texts in both']:,} {inputs} in both{same}."
    changed = [
        Line([f"{c['here']} / {c['there']}", f"{c['texts']:,}"], examples=c["examples"])
        for c in difference["changed answers"]
    ]
    yield "Answers that differ from the other run's", note, ["here / there", inputs], changed
    shifts = [
        Line([f"{s['text']} ({s['label']})", f"{s['there']:.3g}", f"{s['here']:.3g}"], s["here"] - s["there"])
        for s in difference["shifts"]
    ]
    yield "Mean scores that differ most", "", [unit, "there", "here"], shifts


def _unit(unit: Unit, what: str) -> Line:
    value = {"mean": unit.mean, "total": unit.total, "against": unit.against or 0.0}[what]
    last = f"{unit.against or 0.0:.1%}" if what == "against" else f"{unit.total:.4g}"
    cells = [unit.text, f"{unit.count:,}", _with_half(unit.mean, unit.high)]
    if (effect := unit.effect) is not None:
        cells += [_with_half(effect.mean, effect.high), "" if effect.changed is None else f"{effect.changed:.0%}"]
    cells.append(last)
    interval = (unit.low, unit.high)
    return Line(cells, value, interval if what == "mean" else None, unit.examples)


def _with_half(mean: float, high: float) -> str:
    """Return a mean with half the width of its interval, to three digits behind the point."""
    half = "" if high != high else f" ± {round(high - mean, 3):.2g}"
    return f"{round(mean, 3) + 0.0:.3g}{half}"  # no minus before a zero


def _table(heading: str, names: Sequence[str], lines: Sequence[Line], places: dict[str, str]) -> Table:
    """Return the lines as a table whose bars all begin at 0."""
    ends = [e for _, value, interval, _ in lines for e in (value, *(interval or ())) if e is not None]
    low, high = min([0.0, *ends]), max([0.0, *ends])

    def at(value: float) -> float:
        return (value - low) / (high - low) if high > low else 0.0

    columns = [Column(name, numbers=index > 0) for index, name in enumerate(names)]
    bars, examples = any(line[1] is not None for line in lines), any(line[3] for line in lines)
    rows = []
    for texts, value, interval, ids in lines:
        row = [cell(text) for text in texts]
        ends_of = (None, None) if interval is None else (at(interval[0]), at(interval[1]))
        row += [Cell(bar=None if value is None else Bar(at(0.0), at(value), *ends_of))] if bars else []
        row += [Cell(links={i: places.get(i, "") for i in ids})] if examples else []
        rows.append(row)
    columns += [Column("")] * bars + [Column("examples")] * examples
    return Table(columns, rows, sortable=True)
