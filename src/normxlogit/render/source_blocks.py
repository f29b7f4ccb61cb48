"""The blocks of an answer and its sources, which light each other up."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..results.attribution import Attribution
from ..results.citations import LEAST_LOSS, LEAST_SHARE, Citations, Support
from ..results.schema import FloatArray
from .blocks import Block, Column, Fold, Header, Links, Paragraph, Piece, Sentence, Sentences, Table, cell
from .charts import Grid, Legend
from .conversation_blocks import chat_of
from .describe import method_text, model_text
from .layout import cut_pieces
from .verification_blocks import verdict

SHOWN = 8
"""Sources that are listed where none is cited."""

SHARED = 12
"""Most sources beside the sentences of an answer in a figure."""

HINT = (
    "Point at a part of the answer to colour the sources it rests on, or at a source to colour what rests on it; "
    "click to hold, Escape to let go."
)


def source_blocks(s: Attribution) -> list[Block]:
    """Return what drawings of an answer and its sources consist of."""
    return _blocks(s, None)


def citation_blocks(citations: Citations) -> list[Block]:
    """Return what drawings of an answer with citations consist of."""
    return _blocks(citations.attribution, citations)


def _blocks(s: Attribution, cited: Citations | None) -> list[Block]:
    question = [] if cited is None else [("question", cited.question)]
    shares = np.nan_to_num(_by_part(s.shares))[:, s.units.sources]  # (K, S)
    links: dict[str, Any] = {"shares": [[float(f"{v:.3g}") for v in row] for row in shares]}
    if cited is not None and s.bias is not None:
        links["verdicts"] = [sentence.verdict for sentence in cited.support]
    answer, prompt = Sentence("", [("auto", _answer(s, cited))]), Sentence("", [("auto", _prompt(s))])
    whole_prompt = Fold("What the model was given", [Sentences([prompt], small=True)], opened=True)
    if cited is not None and cited.messages:
        text = Sentence("", [("auto", [Piece(s.prompt or "")])])
        whole_prompt = Fold("The prompt as the model reads it", [Sentences([text], small=True)])
    described = [*question, ("method", method_text(s.method, s.settings)), ("model", model_text(s.model))]
    return [
        Header("", described, s.notes, verdict(s.verified)),
        Sentences([answer]) if cited is None or not cited.messages else chat_of(cited, _answer(s, cited)),
        Links(links, HINT),
        *([] if cited is None else _support(cited)),
        *(_listed(s) if cited is None else _listed_citations(cited)),
        Legend("share of what the sources have in favour of a part of the answer", notes=_underlined(cited)),
        whole_prompt,
    ]


def scores_grid(s: Attribution) -> Grid:
    """Return the scores of the sources for each part of the answer, each part by its own largest score."""
    label = f"score ({s.quantity}) / largest of the row"
    table = _by_part(s.scores)[:, s.units.sources]  # (K, S)
    return Grid([t.name for t in s.targets], _source_texts(s), table, label=label, relative=True)


def shares_grid(s: Attribution) -> Grid:
    """Return what share of each part of the answer each source has."""
    shares = np.nan_to_num(_by_part(s.shares))[:, s.units.sources]  # (K, S)
    label = "share of what the sources have in favour of each part of the answer"
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
                piece = piece._replace(kind="unsupported", about=f"{sentence.verdict}: {sentence.reason}")
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


def _underlined(cited: Citations | None) -> list[str]:
    """Return what underlined sentences of the answer are, if there are some."""
    if cited is None or cited.attribution.bias is None:
        return []
    flawed = any(sentence.judgement != "rests" for sentence in cited.support)
    names = cited.wording
    return [f"underlined: a sentence that {names.unsupported}, or contradicts {names.pronoun}"] if flawed else []


def _support(cited: Citations) -> list[Block]:
    """Return whether each sentence of a cited answer rests on its sources, where the scores tell."""
    if cited.attribution.bias is None:
        return []
    rows = [[cell(sentence.text), cell(sentence.verdict), cell(sentence.reason)] for sentence in cited.support]
    columns = [Column("sentence"), Column("verdict"), Column("shares")]
    names = cited.wording
    measured = f", if it loses {LEAST_LOSS:g} nat without {names.pronoun}" if cited.verified is not None else ""
    question = f"Does the answer rest on the {names.sources}?"
    caption = f"{question} A sentence does from a share of {LEAST_SHARE:.0%} on{measured}."
    return [Table(columns, rows, caption)]


class _Source(NamedTuple):
    """A row of the table of sources.

    Attributes:
        label: Its number in the answer.
        nats: What the answer loses without it.
    """

    label: str
    share: float
    name: str
    text: str
    nats: float | None = None


def _listed_citations(cited: Citations) -> list[Block]:
    """Return the cited sources and others that were left out."""
    rows = [_Source(f"[{c.number}]", c.share, c.name, c.text, c.nats) for c in cited.citations()]
    listed, losses = {row.name for row in rows}, cited.losses
    others = [t for t in cited.top(len(cited.sources)) if t.name in losses and t.name not in listed]
    rows += [_Source("", t.share, t.name, t.text, losses[t.name]) for t in others]
    if not rows:
        return [Paragraph("no sentence of the answer cites a source")]
    return [_table(rows, "Sources")]


def _listed(s: Attribution) -> list[Block]:
    """Return the first sources of a result without citations."""
    top = s.top(SHOWN)
    rows = [_Source("", t.share, "" if t.name == t.text else t.name, t.text, _loss(s, t.position)) for t in top]
    count = len(s.units.sources)
    return [_table(rows, f"The {len(rows)} strongest of {count} sources" if count > len(rows) else "Sources")]


def _loss(s: Attribution, unit: int) -> float | None:
    """Return what the answer loses without a source, in nats; None where that was not measured."""
    removal = None if s.verified is None else s.verified.without(unit)
    return None if s.verified is None or removal is None else s.verified.original.value - removal.value


def _table(rows: Sequence[_Source], caption: str) -> Table:
    most = max(row.share for row in rows) or 1.0
    measured = any(row.nats is not None for row in rows)
    named = any(row.label or row.name for row in rows)
    columns = [*([Column("source")] if named else []), Column("text"), Column("share", numbers=True)]
    columns += [Column("without it", numbers=True)] if measured else []
    body = []
    for label, share, name, text, nats in rows:
        cells = [*([cell(f"{label} {name}".strip())] if named else []), cell(text)]
        cells += [cell(f"{share:.0%}", share, strength=max(share, 0.0) / most)]
        body.append([*cells, *([cell("" if nats is None else f"{-nats:+.1f} nats", nats)] if measured else [])])
    return Table(columns, body, caption)
