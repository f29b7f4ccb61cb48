"""The blocks of an answer and its sources: the linked answer, the strongest sources and the prompt."""

from collections.abc import Sequence
from itertools import compress
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from ..results.attribution import Attribution
from ..results.storage.schema import FloatArray
from ..results.verification import likelihood_text, verdict
from .blocks import Blocks, Cell, Column, Fold, Header, Piece, Pieces, Sentence, Sentences, Table, cell
from .charts import Grid, Legend
from .cutting import answer_pieces, cut
from .describe import method_of, model_text, removals_table
from .reasoning import ways_of
from .source_links import links_of

MOST_LISTED = 8
"""Most sources that are listed."""

SHARE = "share of the sources' total support for {} part of the answer"


SOURCE_COLUMNS = (
    Column("source"),
    Column("text"),
    Column("share", numbers=True),
    Column("without it", numbers=True),
)
"""The columns of a table of sources."""


class SourceRow(NamedTuple):
    """A source as a row of a table."""

    name: str  # empty if its text is its name
    text: str
    share: float
    nats: float | None  # the drop of the answer's log-probability without it, in nats; None if not measured


def source_blocks(s: Attribution) -> Blocks:
    """Return the blocks of an answer and its sources; of several layers the last."""
    facts = facts_of(s)
    if s.layers is not None:
        last_layer = s.layers[-1]
        facts.append(("layer", str(last_layer)))
        s = s.layer(last_layer)
    summed = s.whole()
    links = links_of(s)
    return [
        Header(facts=facts, notes=s.notes, tested=verdict(s.verified)),
        as_sentences(answer_pieces(s)),
        links,
        *ways_of(s, links.data["shares"]),
        *removals_table(s.verified, has_bars=True),
        _strongest_sources(summed),
        Legend(SHARE.format("a")),
        prompt_fold(summed),
    ]


def _strongest_sources(summed: Attribution) -> Table:
    """Return the table of the sources with the highest scores for the whole answer."""
    rows = []
    for source in summed.top(MOST_LISTED):
        loss = None if summed.verified is None else summed.verified.loss(source.position)
        name = "" if source.name == source.text else source.name  # a sentence that nobody named is called by its text
        rows.append(SourceRow(name, source.text, share=source.share, nats=loss))
    count = len(summed.units.sources)
    caption = f"The {len(rows)} strongest of {count} sources" if count > len(rows) else "Sources"
    return source_table(rows, caption)


def shares_grid(s: Attribution) -> Grid:
    """Return the grid of each source's share of each part of the answer."""
    return sources_grid(s, np.nan_to_num(s.shares), label=SHARE.format("each"), signed=False)


def sources_grid(s: Attribution, values: FloatArray, **options: Any) -> Grid:
    """Return the grid of the sources' values.

    Args:
        s: The answer with its sources.
        values: (K, U), or (U,) for a single part: a value of each unit for each part of the answer.
        **options: Fields of `Grid`.
    """
    names = [s.units.text[unit] or s.units.names[unit] for unit in s.units.sources]
    parts = [target.name for target in s.targets]
    # A single part may have no axis of parts.
    return Grid(rows=parts, columns=names, scores=np.atleast_2d(values)[:, s.units.sources], **options)


def facts_of(s: Attribution) -> list[tuple[str, str]]:
    """Return the method and the model, as a header names them."""
    return [("method", method_of(s)), ("model", model_text(s.model))]


def as_sentences(pieces: Pieces, *, small: bool = False) -> Sentences:
    """Return the pieces of one text as a block.

    Args:
        pieces: The pieces of the text.
        small: Whether it is drawn in small print.
    """
    return Sentences([Sentence("", [pieces])], small=small)


def prompt_fold(s: Attribution) -> Fold:
    """Return the prompt with its sources as linked pieces, and the text between them in grey."""
    units = s.units
    shares = s.whole().shares  # (U,)
    spans = units.spans or ((0, 0),) * len(units)  # none where no unit has characters
    placed_pieces = []
    for source, unit in enumerate(units.sources):
        name = "" if units.names[unit] == units.text[unit] else units.names[unit]
        # A region of a picture has no text of its own: its name stands there.
        piece = Piece(f"[{name}]" if name else "", name=name, number=f"{shares[unit]:.0%}", source=source)
        placed_pieces.append((*spans[unit], piece))
    placed_pieces.sort(key=itemgetter(0, 1))  # the span
    pieces = cut(s.text or "", placed_pieces, end=len(s.prompt or ""), between="grey")
    return Fold("What the model was given", [as_sentences(pieces, small=True)], opened=True)


def source_table(rows: Sequence[SourceRow], caption: str) -> Table:
    """Return a table of sources, with a column of names and of losses only where some source has one.

    Args:
        rows: The sources.
        caption: The heading of the table.
    """
    largest = max(row.share for row in rows) or 1.0  # all shares may be 0
    has_names = any(row.name for row in rows)
    has_losses = any(row.nats is not None for row in rows)
    are_shown = (has_names, True, True, has_losses)  # of `SOURCE_COLUMNS`
    cells = [tuple(compress(_source_cells(row, largest), are_shown)) for row in rows]
    return Table(list(compress(SOURCE_COLUMNS, are_shown)), cells, caption, stacked=True)


def _source_cells(row: SourceRow, largest: float) -> list[Cell]:
    """Return the cells of a source, with its share in the colour of its part of the largest one."""
    share = cell(f"{row.share:.0%}", row.share, strength=max(row.share, 0.0) / largest)
    loss = cell("" if row.nats is None else likelihood_text(-row.nats), row.nats)
    return [cell(row.name), cell(row.text), share, loss]
