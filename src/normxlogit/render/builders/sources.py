"""The blocks of an answer and its sources, which light each other up."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...results.attribution import Attribution
from ...results.citations import LEAST_LOSS, LEAST_SHARE, Citations, Source, Support
from ...results.storage.schema import FloatArray
from ..blocks import Block, Column, Fold, Header, Links, Paragraph, Piece, Sentence, Sentences, Table, cell
from ..charts import Grid, Legend
from ..describe import method_text, model_text
from ..layout import cut_pieces
from .conversation import chat_of
from .verification import verdict

SHOWN = 8
"""Sources that are listed where none is cited."""

SHARE = "share of the sources' total support for a part of the answer"
"""What the colours mean."""

SHARED = 12
"""Most sources beside the sentences of an answer in a figure."""

HINT = (
    "Point at a part of the answer to colour the sources it rests on, or at a source to colour what rests on it; "
    "click to hold, Escape to let go."
)


def source_blocks(s: Attribution) -> list[Block]:
    """Return what drawings of an answer and its sources consist of."""
    return [
        Header("", _facts(s), s.notes, verdict(s.verified)),
        _text_in_colour(_answer(s, None)),
        _links(s),
        *_listed(s),
        Legend(SHARE),
        _whole_prompt(s),
    ]


def citation_blocks(citations: Citations) -> list[Block]:
    """Return what drawings of an answer with citations consist of: the text, or the conversation, and verdicts."""
    s = citations.attribution
    answer = _answer(s, citations)
    verdicts = [] if s.bias is None else [sentence.verdict for sentence in citations.support]  # shares need the bias
    return [
        Header("", [("question", citations.question), *_facts(s)], s.notes),
        chat_of(citations, answer) if citations.messages else _text_in_colour(answer),
        _links(citations.evidence, verdicts),
        *_support(citations),
        *_listed_citations(citations),
        Legend(SHARE, notes=_underlined(citations)),
        _rendered_prompt(s) if citations.messages else _whole_prompt(citations.evidence),
    ]


def _facts(s: Attribution) -> list[tuple[str, str]]:
    return [("method", method_text(s.method, s.settings)), ("model", model_text(s.model))]


def _text_in_colour(pieces: Sequence[Piece], *, small: bool = False) -> Sentences:
    return Sentences([Sentence("", [("auto", pieces)])], small=small)


def _links(s: Attribution, verdicts: Sequence[str] = ()) -> Links:
    """Return the shares by which parts of the answer and sources light each other up."""
    shares = np.nan_to_num(_by_part(s.shares))[:, s.units.sources]  # (K, S)
    data: dict[str, Any] = {"shares": [[float(f"{v:.3g}") for v in row] for row in shares]}
    return Links({**data, "verdicts": list(verdicts)} if verdicts else data, HINT)


def _whole_prompt(s: Attribution) -> Fold:
    """Return the prompt with its sources, which the answer's parts light up."""
    return Fold("What the model was given", [_text_in_colour(_prompt(s), small=True)], opened=True)


def _rendered_prompt(s: Attribution) -> Fold:
    """Return the prompt of a conversation, whose messages are drawn above it."""
    return Fold("The prompt as the model reads it", [_text_in_colour([Piece(s.prompt or "")], small=True)])


def scores_grid(s: Attribution) -> Grid:
    """Return the scores of the sources for each part of the answer, each part by its own largest score."""
    label = f"score ({s.quantity}) / largest of the row"
    table = _by_part(s.scores)[:, s.units.sources]  # (K, S)
    return Grid([t.name for t in s.targets], _source_texts(s), table, label=label, relative=True)


def shares_grid(s: Attribution) -> Grid:
    """Return what share of each part of the answer each source has."""
    shares = np.nan_to_num(_by_part(s.shares))[:, s.units.sources]  # (K, S)
    label = "share of the sources' total support for each part of the answer"
    return Grid([t.name for t in s.targets], _source_texts(s), shares, label=label, signed=False)


def _by_part(values: FloatArray) -> FloatArray:
    """Return values with a first axis of parts, also of a single one."""
    return values if values.ndim > 1 else values[None]


def _source_texts(s: Attribution) -> list[str]:
    names = s.units.names
    return [s.units.text[i] or names[i] for i in s.units.sources]


def _answer(s: Attribution, cited: Citations | None) -> list[Piece]:
    """Return the parts of the answer with the sources that they cite, and the text between them."""
    spans = [t.span or (0, 0) for t in s.targets]
    pieces = [(start, end, Piece("", kind="strong", part=k)) for k, (start, end) in enumerate(spans)]
    if cited is not None:
        support: Sequence[Support | None] = [None] * len(pieces) if s.bias is None else cited.support
        for k, (numbers, sentence) in enumerate(zip(cited.marks, support, strict=True)):
            start, end, piece = pieces[k]
            if sentence is not None and sentence.judgement != "rests":
                piece = piece._replace(kind="unsupported", details=f"{sentence.verdict}: {sentence.reason}")
            pieces[k] = start, end, piece._replace(cited=numbers)
    return cut_pieces(s.text or "", len(s.prompt or ""), len(s.text or ""), pieces)


def _prompt(s: Attribution) -> list[Piece]:
    """Return the prompt's sources in the order of the text, and the text between them in grey."""
    pieces, shares, names = [], s.whole().shares, s.units.names
    spans = s.units.spans or ((0, 0),) * len(s.units)
    for source, i in enumerate(s.units.sources):
        name = names[i] if names[i] != s.units.text[i] else ""
        start, end = spans[i]
        pieces.append((start, end, Piece("", name=name, number=f"{shares[i]:.0%}", source=source)))
    return cut_pieces(s.text or "", 0, len(s.prompt or ""), pieces, between="grey")


def _underlined(cited: Citations) -> list[str]:
    """Return what underlined sentences of the answer are, if there are some."""
    if cited.attribution.bias is None:
        return []
    flawed = any(sentence.judgement != "rests" for sentence in cited.support)
    name = cited.origin
    return [f"underlined: a sentence that does not rest on the {name}, or contradicts the {name}"] if flawed else []


def _support(cited: Citations) -> list[Block]:
    """Return whether each sentence of a cited answer rests on its sources, where the scores tell."""
    if cited.attribution.bias is None:
        return []
    rows = [[cell(sentence.text), cell(sentence.verdict), cell(sentence.reason)] for sentence in cited.support]
    columns = [Column("sentence"), Column("verdict"), Column("shares")]
    measured = f", if it loses {LEAST_LOSS:g} nat without the {cited.origin}" if cited.verified is not None else ""
    question = f"Does the answer rest on the {cited.origin}?"
    caption = f"{question} A sentence does from a share of {LEAST_SHARE:.0%} on{measured}."
    return [Table(columns, rows, caption, stacked=True)]


def _listed_citations(cited: Citations) -> list[Block]:
    """Return the cited sources and others that were left out."""
    rows = cited.citations()
    rows += [s for s in cited.top(len(cited.sources)) if s.number is None and s.nats is not None]
    if not rows:
        return [Paragraph("no sentence of the answer cites a source")]
    return [_table(rows, "Sources")]


def _listed(s: Attribution) -> list[Block]:
    """Return the first sources of a result without citations."""
    rows = [
        Source(None, place, "", "" if t.name == t.text else t.name, t.text, t.share, _loss(s, t.position))
        for place, t in enumerate(s.top(SHOWN))
    ]
    count = len(s.units.sources)
    return [_table(rows, f"The {len(rows)} strongest of {count} sources" if count > len(rows) else "Sources")]


def _loss(s: Attribution, unit: int) -> float | None:
    """Return what the answer loses without a source, in nats; None where that was not measured."""
    removal = None if s.verified is None else s.verified.without(unit)
    return None if s.verified is None or removal is None else s.verified.original.value - removal.value


def _table(rows: Sequence[Source], caption: str) -> Table:
    largest = max(row.share for row in rows) or 1.0
    measured = any(row.nats is not None for row in rows)
    named = any(row.number or row.name for row in rows)
    columns = [*([Column("source")] if named else []), Column("text"), Column("share", numbers=True)]
    columns += [Column("without it", numbers=True)] if measured else []
    body = []
    for row in rows:
        number = "" if row.number is None else f"[{row.number}]"
        cells = [*([cell(f"{number} {row.name}".strip())] if named else []), cell(row.text)]
        cells += [cell(f"{row.share:.0%}", row.share, strength=max(row.share, 0.0) / largest)]
        cells += [cell("" if row.nats is None else f"{-row.nats:+.1f} nats", row.nats)] if measured else []
        body.append(cells)
    return Table(columns, body, caption, stacked=True)
