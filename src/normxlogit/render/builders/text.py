"""The blocks of a text, picture or sound: sentence or picture, bars, heat map and table of its scores."""

from collections.abc import Sequence

import numpy as np

from ...results.attribution import Attribution
from ..blocks import Bar, Block, Cell, Column, Fold, Paragraph, Piece, Sentence, Sentences, Table, cell
from ..charts import Grid, Legend, number
from ..describe import Facts, facts, prediction_text
from ..layout import Layout, Row, Segment, drawable, layout, strongest
from .media import coarser, media_block
from .verification import WITHOUT, verdict, without_text

STRONGEST = 8
"""Words that get a bar."""

SUMMARY = 4
"""Words that the slider names."""

READ_HERE = "The answer is read at this token: its score says that an answer is due there, not which"
"""What is said of the token at which an answer is read."""

LARGEST = 8_000
"""Fields of a heat map that a page still draws; a larger one slows browsers down."""

UNREAD = "no token covers this text: the model did not read it"
"""What is said of what a limit left out, or the tokenizer."""

NOTHING = "no word has a score here: what there is belongs to special tokens"
"""What is said of a layer whose scores are all on special tokens."""

VISIBLE = 0.1
"""Least share of a layer's scores outside special tokens for a page to open there."""

LEVEL = 0.5
"""Share of the largest score from which the smallest is mentioned, where all scores have one sign."""


def attribution_blocks(a: Attribution, *, words: bool | None = None, cost: str = "") -> list[Block]:
    """Return what drawings of a result consist of.

    Raises:
        DataError: If words are asked for and the result has none.
    """
    drawn, described = layout(a, words=words), facts(a)
    alone = _head_alone(a, drawn)
    blocks: list[Block] = [described.header(cost, verdict(a.verified))]
    if a.scores.ndim == 1:
        blocks += [media_block(m, m.scores, signed=a.signed) for m in map(coarser, (*a.images, *a.audio))]
    if a.has_text or a.scores.ndim > 1:
        blocks.append(_sentences(a, drawn, alone))
    if drawn.rows[1:]:
        axis = "layer" if a.layers is not None else "label"
        blocks += [legend_of(described, drawn, layers=a.layers is not None)]
        return blocks + _detail(f"Every {axis}", rows_grid(a, drawn, alone))
    unit = "word" if words or (words is None and a.has_words) else "token"
    bars = _strongest(a, drawn, unit)
    blocks.append(bars)
    answer_positions = [
        (c.name, number(float(s), drawn.rows[0].scale, signed=a.signed))
        for c, s in zip(drawn.columns, drawn.rows[0].scores, strict=True)
        if c.answer_read and isinstance(bars, Table)
    ]
    blocks += [Paragraph(f"read here: {name} {score}. {READ_HERE}") for name, score in answer_positions]
    blocks.append(legend_of(described, drawn, layers=False))
    if drawn.columns:
        count = len(drawn.columns)
        blocks.append(Fold(f"All {count} scores" if count > 1 else "The score", [_table(a, drawn, unit, alone)]))
    return blocks


def sentence_of(
    drawn: Layout,
    row: Row,
    *,
    signed: bool,
    caption: str = "",
    alone: Sequence[str] = (),
    without: Sequence[str] = (),
    step: int | None = None,
) -> Sentence:
    """Return the text in the colours of a row.

    Args:
        drawn: The layout.
        row: One of its rows.
        signed: Whether scores have a sign.
        caption: What the row is.
        alone: The head's prediction at each column's token alone; empty where that was not computed.
        without: The model's answer without each column; empty where that was not measured.
        step: The position of the slider at which it is shown.
    """

    def piece(segment: Segment) -> Piece:
        if segment.column is None:
            if not segment.text.strip():
                return Piece(segment.text)
            return Piece(segment.text, kind="rest", details=UNREAD)
        i = segment.column
        column = drawn.columns[i]
        details = [f"({row.name})"] if row.name else []
        details += [f"{WITHOUT}: {without[i]}"] if without and without[i] else []
        details += [f"the head at this token alone: {alone[i]}"] if alone and alone[i] else []
        details += [READ_HERE] if column.answer_read else []
        details += ["an attention sink: what it contributes besides is in no score"] if column.sink else []
        kind = "special" if column.special else "sink" if column.sink else "read" if column.answer_read else ""
        strength = 0.0 if column.special else float(row.strengths[i])
        score_text = number(float(row.scores[i]), row.scale, signed=signed)
        return Piece(drawable(segment), strength, kind, column.name, score_text, "\n".join(details), i)

    texts = [(d, [piece(s) for s in segments]) for d, segments in zip(drawn.directions, drawn.texts, strict=True)]
    return Sentence(caption or row.name, texts, step, _summary(drawn, row, signed=signed))


def legend_of(described: Facts, drawn: Layout, *, layers: bool) -> Legend:
    """Return what the colours of a result mean."""
    shared = [] if drawn.rows[1:] else _shared_level(drawn, drawn.rows[0], signed=described.negative is not None)
    scales = [row.scale for row in drawn.rows]
    layer_notes = ["each layer by its own largest score"] if layers else []
    layer_notes += [f"{row.name}: {NOTHING}" for row in drawn.rows if layers and not strongest(drawn, row, 1)]
    unread = any(s.column is None and s.text.strip() for segments in drawn.texts for s in segments)
    notes = [*layer_notes, *shared]
    strengths = np.concatenate([row.strengths[drawn.plain] for row in drawn.rows] or [np.zeros(0, np.float32)])
    extremes = (float(strengths.max(initial=0)), float(strengths.min(initial=0)))
    return Legend(described.positive, described.negative, scales, notes, extremes, unread=unread)


def score_label(described: Facts) -> str:
    """Return what scores mean, for an axis."""
    return f"score: {described.positive}" + (f" (+), {described.negative} (−)" if described.negative else "")


def _strongest(a: Attribution, drawn: Layout, unit: str) -> Block:
    """Return the strongest scores with bars, and those of which the model's answer without them was measured."""
    row, count = drawn.rows[0], len(drawn.columns)
    ranked = strongest(drawn, row, count)
    columns = [i for place, i in enumerate(ranked) if place < STRONGEST or _without(a, drawn, i)]
    if not columns:
        return Paragraph(f"no {unit} has a score other than zero")
    scores, without = row.scores[columns].tolist(), [_without(a, drawn, i) for i in columns]
    least, largest = min(0.0, *scores), max(0.0, *scores)
    zero = -least / (largest - least)
    rows = []
    for i, score, answer in zip(columns, scores, without, strict=True):
        cells = [cell(drawn.columns[i].name), cell(number(score, row.scale, signed=a.signed), score)]
        cells += [Cell(bar=Bar(zero, zero + score / (largest - least)))]
        rows.append([*cells, *([cell(answer)] if any(without) else [])])
    header = [Column("score" if any(without) else "", numbers=True), Column("")]
    header += [Column(WITHOUT)] if any(without) else []
    units = unit if len(ranked) == 1 else f"{unit}s"
    caption = f"The {len(rows)} strongest of {len(ranked)} {units}" if len(ranked) > len(rows) else units.capitalize()
    return Table([Column(""), *header], rows, caption, stacked=True)


def rows_grid(a: Attribution, drawn: Layout, alone: Sequence[str] = ()) -> Grid:
    """Return a heat map with a row for each label and layer."""
    layers = a.layers is not None
    return Grid(
        rows=[row.name or a.targets[0].name for row in drawn.rows],
        columns=[column.name for column in drawn.columns],
        scores=np.stack([row.scores for row in drawn.rows]),
        label="score / largest of the layer" if layers else score_label(facts(a)),
        signed=a.signed,
        special=drawn.special,
        column_details={
            i: f"the head at this token alone: {prediction}" for i, prediction in enumerate(alone) if prediction
        },
        relative=layers,
        steps=len(a.layers or ()),
        scales=[row.scale for row in drawn.rows],
    )


def opening(a: Attribution) -> int:
    """Return which layer a drawing opens on: the last with scores outside special tokens that can be seen.

    By some methods all of the last layer's scores are on the special token that the head reads.
    """
    if a.layers is None:
        return 0
    sizes = np.nan_to_num(np.abs(a.scores)).reshape(-1, len(a.layers), len(a.units)).sum(0)  # (L, T)
    plain = ~np.array(a.units.special, dtype=bool)
    shares = sizes[:, plain].sum(-1) / np.maximum(sizes.sum(-1), 1e-30)  # (L,)
    visible = np.flatnonzero(shares >= VISIBLE)
    return int(visible[-1] if len(visible) else shares.argmax())


def _sentences(a: Attribution, drawn: Layout, alone: Sequence[str]) -> Sentences:
    """Return one for each label and layer; a page shows the layers one at a time."""
    count = len(a.layers or (0,))
    sliding = a.layers is not None and count > 1
    rows = [
        sentence_of(
            drawn,
            row,
            signed=a.signed,
            alone=alone,
            without=[_without(a, drawn, column) for column in range(len(drawn.columns))],
            step=i % count if sliding else None,
        )
        for i, row in enumerate(drawn.rows)
    ]
    steps = [f"layer {layer}" for layer in a.layers or ()] if sliding else []
    return Sentences(rows, steps, opening(a))


def _detail(title: str, grid: Grid) -> list[Block]:
    """Return a heat map in an open fold, or a notice in its place where it is too large for a page."""
    size = grid.scores.size
    notice = Paragraph(f"The table of {size:,} scores is too large for a page; the saved JSON has it.")
    return [Fold(title, [notice if size > LARGEST else grid], opened=True)]


def _table(a: Attribution, drawn: Layout, unit: str, alone: Sequence[str]) -> Table:
    row = drawn.rows[0]
    columns = [Column(unit), Column("score", numbers=True)]
    columns += [Column(WITHOUT)] if a.verified else []
    columns += [Column("the head at this token alone")] if alone else []
    rows = []
    for i, column in enumerate(drawn.columns):
        score = float(row.scores[i])
        name = Cell((Piece(column.name, kind="special" if column.special else ""),))
        cells = [name, cell(number(score, row.scale, signed=a.signed), score)]
        cells += [cell(_without(a, drawn, i))] if a.verified else []
        rows.append([*cells, cell(alone[i])] if alone else cells)
    return Table(columns, rows, numbered=True, sortable=True)


def _without(a: Attribution, drawn: Layout, column: int) -> str:
    return without_text(a, drawn.columns[column].tokens)


def _head_alone(a: Attribution, drawn: Layout) -> list[str]:
    """Return the head's prediction at each column's token alone; "" for words of several tokens."""
    predictions = a.token_predictions
    if predictions is None:
        return []
    return [prediction_text(predictions[c.tokens[0]]) if len(c.tokens) == 1 else "" for c in drawn.columns]


def _summary(drawn: Layout, row: Row, *, signed: bool) -> str:
    columns = strongest(drawn, row, SUMMARY)
    strongest_scores = [
        f"{drawn.columns[i].name} {number(float(row.scores[i]), row.scale, signed=signed)}" for i in columns
    ]
    return ", ".join(strongest_scores) or NOTHING


def _shared_level(drawn: Layout, row: Row, *, signed: bool) -> list[str]:
    """Say that all scores have one sign and are alike, if they are."""
    scores = row.scores[drawn.plain]
    sizes = np.abs(scores)
    if len(scores) < 2 or not ((scores > 0).all() or (scores < 0).all()) or sizes.min() < LEVEL * sizes.max():
        return []
    least = number(float(scores[sizes.argmin()]), row.scale, signed=signed)
    return [
        f"all scores have one sign, and none is closer to 0 than {least}; centered() shows the difference from the mean"
    ]
