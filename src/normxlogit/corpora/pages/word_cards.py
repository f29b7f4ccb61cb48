"""The cards on words: what decides by itself, and the words for and against each label."""

from collections.abc import Iterable, Mapping, Sequence

from ...render.blocks import Block, Card, Cell, Fold, Paragraph, Table
from ...render.charts import number
from ...results.units.characters import one_line, shortened
from ...text.same import find_text
from ..summaries.summary import Summary
from ..summaries.units import UNIT_NAMES, Reason, Unit
from .tables import Row, bars, table

EXAMPLE = 60
"""Most characters of an example in a table."""

COMPARED = 5
"""Most words in the table that do not decide by themselves."""

MEANS = (
    'A positive mean score speaks for the answer "{label}", a negative one against it; the surest ones, each with its '
    '95% interval over texts. "texts": in how many texts that were explained for this answer it stands; however often '
    "it stands in a text, this counts once."
)

TESTED = (
    ' "without it": how much the logit of the answer changes, on average, when it is left out of texts that have it; '
    "listed are those without which it surely changes as the score says, by a tenth of it or more."
)

UNTESTED = " Nothing was left out to test this: a score can be large where a word changes nothing (--verify)."

NOT_CONFIRMED = (
    "By their scores these would be listed too; without them the answer changes too little, or not surely: {names}"
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
    "whatever else the texts say. Honest words are among them, such as a plain verdict: look whether a word should "
    "decide alone, and for the others in the training data. "
)

COUNTED = (
    '"put in: turned": of so many texts with another answer, how many get this one; "taken out: changed": of so many '
    "texts with this answer, how many lose it. Two words are put in together, and neither turns as many by itself. "
    "Lengths were tested by reading texts of one answer as one text, which should have that answer: how many get this "
    "one."
)

SIDES = "← against | for →"
"""The heading of bars with two sides."""


def reason_cards(reasons: Sequence[Reason]) -> list[Card]:
    """Return the card of words that decide by themselves, or the line that none does; none if it was not measured."""
    if not reasons:
        return []
    deciding = [reason for reason in reasons if reason.decides]
    others = [reason for reason in reasons if not reason.decides][:COMPARED]
    if not deciding:  # a terminal, which does not show what is folded, has the heading alone
        blocks: list[Block] = [
            Fold("What was tested, the strongest first", [Paragraph(COUNTED), _reason_table(others)])
        ]
        return [Card(blocks, "Nothing that was tested decides by itself", result=False)]
    blocks = [Paragraph(DECIDES + COUNTED), _reason_table(deciding)]
    blocks += [Fold("The strongest others, for comparison", [_reason_table(others)], essential=True)] if others else []
    return [Card(blocks, "Words that decide by themselves", result=False)]


def _reason_table(reasons: Sequence[Reason]) -> Table:
    """Return the table of what turns answers by itself."""
    rows = []
    for reason in reasons:
        answered = f"{reason.answered:.0%} (of all: {reason.usual:.0%})"
        of_scores = "" if reason.score_share is None else f"{reason.score_share:.0%}"
        turned = f"{reason.turned.part} of {reason.turned.texts}"
        changed = "" if reason.changed is None else f"{reason.changed.part} of {reason.changed.texts}"
        rows.append([reason.name, reason.label, f"{reason.texts:,}", answered, of_scores, turned, changed])
    return table(REASON_COLUMNS, rows, words=2)


def label_cards(summary: Summary) -> list[Card]:
    """Return a card for each label: its listed units by their mean scores, positive and negative."""
    units = [*summary.highest, *summary.against]
    labels = dict.fromkeys(unit.label for unit in (*units, *summary.untrue))
    return [_label_card(summary, label, _of_label(units, label)) for label in labels]


def _label_card(summary: Summary, label: str, units: Sequence[Unit]) -> Card:
    """Return the card of a label."""
    inputs = UNIT_NAMES[summary.unit].inputs
    untrue = _of_label(summary.untrue, label)
    name = one_line(label)
    # Such as of "pictures"; the label is put in last, as it may have the word "texts".
    means = MEANS.replace("texts", inputs).format(label=name)
    note = means + (TESTED if summary.tested else UNTESTED)
    blocks: list[Block] = [Paragraph(note)]
    blocks += [_unit_table(summary, units)] if units else [Paragraph("None passed this test.")]
    if untrue:
        names = shortened(", ".join(f'"{unit.text}"' for unit in untrue), 2 * EXAMPLE)
        blocks.append(Fold(NOT_CONFIRMED.format(names=names), [_unit_table(summary, untrue)]))
    title = f'{summary.unit.capitalize()} for and against "{name}"'
    return Card(blocks, title, result=False)


def _of_label(units: Iterable[Unit], label: str) -> list[Unit]:
    """Return the units of a label, each once, those of the highest mean scores first."""
    by_text: dict[str, Unit] = {}
    for unit in units:
        if unit.label == label:
            by_text.setdefault(unit.text, unit)
    return sorted(by_text.values(), key=lambda unit: -unit.mean)


def _unit_table(summary: Summary, units: Sequence[Unit]) -> Table:
    """Return the table of units with bars and, where they were tested, how the logit changes without them.

    Args:
        summary: The summary, which says what the units are, whether they were tested, and has the texts by their ids.
        units: The units, one at least.
    """
    name, inputs = UNIT_NAMES[summary.unit]
    drawn = bars([(unit.mean, _interval(unit)) for unit in units])
    scale = max(abs(unit.mean) for unit in units)
    rows: list[Row] = []
    for unit, bar in zip(units, drawn, strict=True):
        tested = [_fall_text(unit, scale)] if summary.tested else []
        score = _with_half_width(unit.mean, unit.high, scale)
        score_bar = Cell(value=unit.mean, bar=bar)
        example = _example(unit, summary.texts)
        rows.append([unit.text, f"{unit.texts:,}", score, *tested, score_bar, example])
    columns = [name, inputs, "mean score", *(["without it"] if summary.tested else []), SIDES]
    return table([*columns, "example" if summary.texts else "examples"], rows, stacked=True)


def _interval(unit: Unit) -> tuple[float, ...]:
    """Return the ends of a unit's interval; none of a single text."""
    return () if unit.low is None or unit.high is None else (unit.low, unit.high)


def _with_half_width(mean: float, high: float | None, scale: float) -> str:
    """Return a mean with half the width of its interval, such as "+1.2 ± 0.3".

    Args:
        mean: The mean.
        high: The upper end of its interval; None if it has none.
        scale: The largest absolute value of the table, which decides on decimals.
    """
    half_width = "" if high is None else f" ± {number(high - mean, scale, signed=False)}"
    return number(mean, scale) + half_width


def _fall_text(unit: Unit, scale: float) -> str:
    """Return how the logit changes without a unit, a fall as a negative number; empty if it was not measured."""
    fall = unit.fall
    # The change is the fall with the other sign, so the upper end of its interval is the lower one of the fall's.
    return "" if fall is None else _with_half_width(-fall.mean, -fall.low, scale)


def anchors(texts: Iterable[str]) -> list[tuple[str, str]]:
    """Return the id of each text with the name of its anchor on the page, to which links lead."""
    return [(text_id, f"text-{index}") for index, text_id in enumerate(texts)]


def _example(unit: Unit, texts: Mapping[str, str]) -> Cell:
    """Return the first example of a unit, from near its word on, with a link to its text; its ids without texts."""
    text_id = next((text_id for text_id in unit.examples if text_id in texts), None)
    if text_id is None:
        return Cell(links=dict.fromkeys(unit.examples, ""))
    text = " ".join(texts[text_id].split())
    # 0 if it does not stand there as a word, as a token may be a part of one.
    word_start = next((start for start, _ in find_text(text, unit.text)), 0)
    if word_start > EXAMPLE // 2:  # the word would be cut off, or stand at the end: only some text before it stays
        shown_start = text.rfind(" ", 0, word_start - EXAMPLE // 3) + 1
        text = "\N{HORIZONTAL ELLIPSIS}" + text[shown_start:]
    return Cell(links={shortened(text, EXAMPLE): dict(anchors(texts))[text_id]})
