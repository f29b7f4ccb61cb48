"""The blocks of an answer and its sources, which light each other up."""

from collections.abc import Sequence

import numpy as np

from ..results.citations import LEAST_LOSS, LEAST_SHARE, Citations, Support
from ..results.sources import Sources
from .blocks import Block, Column, Fold, Header, Links, Paragraph, Piece, Sentence, Sentences, Table, cell
from .charts import Grid, Legend
from .describe import method_text, model_text

SHOWN = 8
"""Sources that are listed where none is cited."""

SHARED = 12
"""Most sources beside the sentences of an answer in a figure."""

HINT = (
    "Point at a part of the answer to colour the sources it rests on, or at a source to colour what rests on it; "
    "click to hold, Escape to let go."
)


def source_blocks(s: Sources) -> list[Block]:
    """Return what drawings of an answer and its sources consist of."""
    question = [("question", s.question)] if isinstance(s, Citations) else []
    shares = [[float(f"{v:.3g}") for v in row] for row in np.nan_to_num(s.part_shares)]  # (K, S)
    return [
        Header("", [*question, ("method", method_text(s.method, s.settings)), ("model", model_text(s.model))], s.notes),
        Sentences([Sentence("", [("auto", _answer(s))])]),
        Links({"shares": shares}, HINT),
        *_support(s),
        *_listed(s),
        Legend("share of what the sources have in favour of a part of the answer", notes=_underlined(s)),
        Fold("What the model was given", [Sentences([Sentence("", [("auto", _prompt(s))])], small=True)], opened=True),
    ]


def scores_grid(s: Sources) -> Grid:
    """Return the scores of the sources for each part of the answer, each part by its own largest score."""
    label = f"score ({s.unit}) / largest of the row"
    return Grid([p.name for p in s.parts], _source_texts(s), s.table, label=label, relative=True)


def shares_grid(s: Sources) -> Grid:
    """Return what share of each part of the answer each source has."""
    shares = np.nan_to_num(s.part_shares)  # (K, S)
    label = "share of what the sources have in favour of each part of the answer"
    return Grid([p.name for p in s.parts], _source_texts(s), shares, label=label, signed=False)


def _source_texts(s: Sources) -> list[str]:
    return [s.text[slice(*span)] or name for span, name in zip(s.spans, s.names, strict=True)]


def _answer(s: Sources) -> list[Piece]:
    """Return the parts of the answer with the sources that they cite, and the text between them."""
    pieces = [(part.start, part.end, Piece("", kind="strong", part=k)) for k, part in enumerate(s.parts)]
    if isinstance(s, Citations):
        support: Sequence[Support | None] = [None] * len(s.parts) if s.bias is None else s.support
        for k, (numbers, one) in enumerate(zip(s.marks, support, strict=True)):
            start, end, piece = pieces[k]
            if one is not None and (one.contradiction is not None or not one.rests):
                piece = piece._replace(kind="unsupported", about=f"{one.verdict}: {one.reason}")
            pieces[k] = start, end, piece._replace(cited=numbers)
    return _pieces(s.text, len(s.text) - len(s.completion), len(s.text), pieces)


def _prompt(s: Sources) -> list[Piece]:
    """Return the prompt's sources in the order of the text, and the text between them in grey."""
    pieces = []
    for i, (source, share) in enumerate(zip(s.sources, s.shares, strict=True)):
        name = source.name if source.name != s.text[source.start : source.end] else ""
        pieces.append((source.start, source.end, Piece("", name=name, number=f"{share:.0%}", source=i)))
    return _pieces(s.text, 0, len(s.text) - len(s.completion), pieces, between="grey")


def _pieces(text: str, start: int, end: int, pieces: list[tuple[int, int, Piece]], between: str = "") -> list[Piece]:
    """Cut a text at the spans of pieces."""
    cut, done = [], start
    for first, last, piece in sorted(pieces, key=lambda span: span[:2]):
        first = max(first, done)
        if first > done:
            cut.append(Piece(text[done:first], kind=between))
        name = f"[{piece.name}]" if piece.name else ""  # a region of a picture whose place is taken
        cut.append(piece._replace(text=text[first:last] or name))
        done = max(done, last)
    if text[done:end].strip():
        cut.append(Piece(text[done:end], kind=between))
    return cut


def _underlined(s: Sources) -> list[str]:
    """Return what underlined sentences of the answer are, if there are some."""
    if not isinstance(s, Citations) or s.bias is None:
        return []
    flawed = any(one.contradiction is not None or not one.rests for one in s.support)
    return ["underlined: a sentence that does not rest on the documents, or contradicts them"] if flawed else []


def _support(s: Sources) -> list[Block]:
    """Return whether each sentence of a cited answer rests on the documents, where the scores tell."""
    if not isinstance(s, Citations) or s.bias is None:
        return []
    rows = [[cell(one.text), cell(one.verdict), cell(one.reason)] for one in s.support]
    columns = [Column("sentence"), Column("verdict"), Column("shares")]
    measured = f", if it loses {LEAST_LOSS:g} nat without them" if s.verified is not None else ""
    caption = f"Does the answer rest on the documents? A sentence does from a share of {LEAST_SHARE:.0%} on{measured}."
    return [Table(columns, rows, caption)]


def _listed(s: Sources) -> list[Block]:
    """Return the cited sources and others that were left out; of a result without citations the first ones."""
    rows: list[tuple[str, float, str, str, float | None]]
    if isinstance(s, Citations):
        rows = [(f"[{c.number}]", c.share, c.name, c.text, c.nats) for c in s.citations()]
        listed = {row[2] for row in rows}
        others = [t for t in s.top(len(s)) if t.name in s.losses and t.name not in listed]
        rows += [("", t.share, t.name, t.text, s.losses[t.name]) for t in others]
    else:
        rows = [("", t.share, "" if t.name == t.text else t.name, t.text, None) for t in s.top(SHOWN)]
    if not rows:
        return [Paragraph("no sentence of the answer cites a source")]
    most = max(row[1] for row in rows) or 1.0
    measured = any(row[4] is not None for row in rows)
    named = any(row[0] or row[2] for row in rows)
    columns = [*([Column("source")] if named else []), Column("text"), Column("share", numbers=True)]
    columns += [Column("without it", numbers=True)] if measured else []
    body = []
    for label, share, name, text, nats in rows:
        cells = [*([cell(f"{label} {name}".strip())] if named else []), cell(text)]
        cells += [cell(f"{share:.0%}", share, strength=max(share, 0.0) / most)]
        body.append([*cells, *([cell("" if nats is None else f"{nats:+.1f} nats", nats)] if measured else [])])
    more = len(s) - len(rows)
    caption = f"The {len(rows)} strongest of {len(s)} sources" if more and not isinstance(s, Citations) else "Sources"
    return [Table(columns, body, caption)]
