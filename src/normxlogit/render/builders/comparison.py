"""The blocks of several methods on one text, side by side."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ...errors import DataError
from ...results.attribution import Attribution
from ...results.collection import Attributions
from ..blocks import Block, Card, Cell, Column, Header, Paragraph, Piece, Sentences, Table, cell
from ..charts import Grid, Legend, number
from ..describe import distinct_methods, facts
from ..layout import Layout, layout
from .curves import Curve, Curves
from .text import sentence_of
from .verification import verdict

STRONGEST = 8
"""Words that a terminal lists."""

Agreement = npt.NDArray[np.float64]


def comparison_blocks(
    results: Attributions[Attribution],
    *,
    words: bool | None = None,
    costs: Sequence[str] = (),
) -> list[Block]:
    """Return what drawings of several methods' results of one text and target consist of.

    Raises:
        DataError: If a result has several labels or layers, or the texts differ.
    """
    layouts, facts_by_method = _layouts(results, words), [facts(a) for a in results]
    titles = distinct_methods([(a.method, a.settings) for a in results])
    signed = next((i for i, method_facts in enumerate(facts_by_method) if method_facts.negative), 0)
    unit = "word" if words or (words is None and results[0].has_words) else "token"
    methods = [
        f"{method_facts.method}: {cost}" if cost else method_facts.method
        for method_facts, cost in zip(facts_by_method, costs or [""] * len(results), strict=True)
    ]
    rows: list[tuple[str, str]] = [
        ("explained", facts_by_method[0].target),
        *(("method", method) for method in methods),
        ("model", facts_by_method[0].model),
    ]
    notes = list(dict.fromkeys(note for method_facts in facts_by_method for note in method_facts.notes))
    sentences = [
        sentence_of(method_layout, method_layout.rows[0], signed=a.signed, caption=title)
        for a, method_layout, title in zip(results, layouts, titles, strict=True)
    ]
    tested = [
        (f"tested, {title}", text) for title, a in zip(titles, results, strict=True) if (text := verdict(a.verified))
    ]
    rows += tested
    meanings = facts_by_method[signed].positive, facts_by_method[signed].negative
    return [
        Header(facts_by_method[0].prediction, rows, notes),
        Sentences(sentences),
        _scores(results, layouts, titles, unit),
        Legend(*meanings, notes=["each method by its own largest score"]),
        _agreement(titles, results.agreement),
    ]


def comparison_grid(results: Sequence[Attribution]) -> Grid:
    """Return several methods on one text as a heat map, each row on the scale of its own largest score."""
    layouts = _layouts(results, None)
    return Grid(
        rows=distinct_methods([(a.method, a.settings) for a in results]),
        columns=[column.name for column in layouts[0].columns],
        scores=np.stack([method_layout.rows[0].scores for method_layout in layouts]),  # (M, columns)
        label="score / largest of the method",
        special=layouts[0].special,
        relative=True,
    )


def curves_card(curves: Sequence[Curve]) -> list[Card]:
    """Return a card of deletion curves; none without curves."""
    if not curves:
        return []
    explanation = (
        f"The {curves[0].quantity} while {curves[0].unit} are {curves[0].way} one after the other. An explanation is "
        "faithful where the solid line falls at once and the dashed one stays: the gap is the area between them, "
        "about 0 for a random order."
    )
    return [Card([Paragraph(explanation), Curves(curves)], "Is it faithful?", result=False)]


def _layouts(results: Sequence[Attribution], words: bool | None) -> list[Layout]:
    """Lay out one result a method; each has a row for its one target and layer, and all cut the text alike."""
    layouts = [layout(a, words=words) for a in results]
    first = layouts[0]
    if not all(len(method_layout.rows) == 1 and method_layout.same_pieces(first) for method_layout in layouts):
        raise DataError("methods side by side need one score for each token of the same text")
    return layouts


def _scores(results: Sequence[Attribution], layouts: Sequence[Layout], titles: Sequence[str], unit: str) -> Table:
    """Return a row for each word; a terminal shows those that are strongest by any method."""
    strengths = np.stack([method_layout.rows[0].strengths for method_layout in layouts])  # (M, columns)
    strongest_rows = sorted(layouts[0].plain, key=lambda i: -float(np.abs(strengths[:, i]).max()))[:STRONGEST]
    rows = []
    for i, column in enumerate(layouts[0].columns):
        cells = [Cell((Piece(column.name, kind="special" if column.special else ""),))]
        for a, method_layout in zip(results, layouts, strict=True):
            row = method_layout.rows[0]
            score, strength = float(row.scores[i]), 0.0 if column.special else float(row.strengths[i])
            cells.append(cell(number(score, row.scale, signed=a.signed), score, strength=strength))
        rows.append(cells)
    columns = [Column(unit), *(Column(title, numbers=True) for title in titles)]
    return Table(columns, rows, f"Scores of each {unit}", numbered=True, sortable=True, terminal_rows=strongest_rows)


def _agreement(titles: Sequence[str], agreement: Agreement) -> Table:
    rows = []
    for title, line in zip(titles, agreement.tolist(), strict=True):
        rows.append([cell(title), *(cell("none" if np.isnan(v) else f"{v:.2f}", v) for v in line)])
    columns = [Column(""), *(Column(title, numbers=True) for title in titles)]
    return Table(columns, rows, "How far the rankings agree: 1 the same order, 0 none, -1 the reverse (Spearman)")
