"""The blocks of an answer and its sources, with or without citations, linked to each other."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..render.blocks import Block, Column, Fold, Header, Links, Paragraph, Piece, Sentence, Sentences, Table, cell
from ..render.builders.conversation import chat_of
from ..render.charts import Grid, Legend
from ..render.describe import method_of, model_text
from ..render.layout import answer_pieces, cut
from ..render.verification import verdict
from ..results.attribution import Attribution
from ..results.storage.schema import FloatArray
from .result import Citations

SHOWN = 8
"""Sources that are listed if there are no citations."""

SHARE = "share of the sources' total support for {} part of the answer"
"""The meaning of the colours."""

UNSAID = "underlined: a word that the sources do not say; pointing at it shows what they rather say"
"""The meaning of underlined words."""

HINT = (
    "Point at a part of the answer to colour the sources it rests on, or at a source to colour what rests on it; "
    "click to hold, Escape to let go."
)


def source_blocks(s: Attribution) -> list[Block]:
    """Return the blocks of an answer and its sources."""
    count = len(s.units.sources)
    rows = []
    for source in s.top(SHOWN):
        name = "" if source.name == source.text else source.name
        nats = None if s.verified is None else s.verified.loss(source.position)
        rows.append((name, source.text, source.share, nats))
    return [
        Header("", _facts(s), s.notes, verdict(s.verified)),
        _text(answer_pieces(s)),
        _links(s),
        _listed(rows, f"The {len(rows)} strongest of {count} sources" if count > len(rows) else "Sources"),
        Legend(SHARE.format("a")),
        _prompt(s),
    ]


def citation_blocks(cited: Citations) -> list[Block]:
    """Return the blocks of an answer with citations: the text or conversation, verdicts and sources."""
    s, name, evidence, support = cited.attribution, cited.origin, cited.evidence, cited.support
    answer = _marked_answer(cited)
    marked = any(piece.kind == "unsupported" for piece in answer)
    of_sentence = [[word for word in cited.words if word.sentence == k and word.unsaid] for k in range(len(support))]
    verdicts = [
        [cell(sentence.text), cell(sentence.verdict), cell(", ".join(word.text for word in words))]
        for sentence, words in zip(support, of_sentence, strict=True)
    ]
    columns = [Column("sentence"), Column("verdict"), Column("words not said there")]
    tested = [source for source in cited.top(len(cited.sources)) if source.number is None and source.nats is not None]
    rows = [
        (f"[{source.number}] {source.name}" if source.number else source.name, source.text, source.share, source.nats)
        for source in (*cited.citations(), *tested)
    ]
    rendered = _text([Piece(s.prompt or "")], small=True)
    figures = Table(
        [Column("sentence"), Column("figures")],
        [[cell(sentence.text), cell(sentence.reason)] for sentence in support if sentence.reason],
        stacked=True,
    )
    return [
        Header("", [("question", cited.question), *_facts(s)], s.notes),
        chat_of(cited, answer) if cited.messages else _text(answer),
        _links(evidence, [sentence.verdict for sentence in support]),
        Table(columns, verdicts, f"Does the answer rest on the {name}?", stacked=True),
        _listed([(*row[:3], None) for row in rows], "Sources") if rows else Paragraph("no source is cited"),
        Legend(
            SHARE.format("a"),
            styles=[f"underlined: a word that the {name} does not say".replace("documents does", "documents do")]
            if marked
            else [],
        ),
        *(
            [Fold("Figures behind the verdicts", [figures, _listed(rows, "What the answer loses without each")])]
            if rows
            else []
        ),
        Fold("The prompt as the model reads it", [rendered]) if cited.messages else _prompt(evidence),
    ]


def scores_grid(s: Attribution) -> Grid:
    """Return the grid of the sources' scores for each part of the answer, each part on its own scale."""
    return _grid(s, s.scores, label=f"score ({s.quantity}) / largest of the row", relative=True)


def shares_grid(s: Attribution) -> Grid:
    """Return the grid of each source's share of each part of the answer."""
    return _grid(s, np.nan_to_num(s.shares), label=SHARE.format("each"), signed=False)


def _grid(s: Attribution, values: FloatArray, **options: Any) -> Grid:
    """Return a grid of the sources' columns of values of all units, (K, U), or (U,) for a single part."""
    names = [s.units.text[i] or s.units.names[i] for i in s.units.sources]
    return Grid([t.name for t in s.targets], names, np.atleast_2d(values)[:, s.units.sources], **options)


def _marked_answer(cited: Citations) -> list[Piece]:
    """Return the answer in pieces, each sentence with the numbers of its citations, and each unsaid word by itself."""
    answer, marks, text = [], cited.marks, cited.text
    unsaid = [word for word in cited.words if word.unsaid]
    position = len(text) - len(cited.answer)
    for piece in answer_pieces(cited.attribution):
        if (part := piece.part) is None:
            answer.append(piece)
            position += len(piece.text)
            continue
        start, end = position, position + len(piece.text)
        for word in unsaid:
            if word.sentence == part and start <= word.start and word.end <= end:
                answer.append(piece._replace(text=text[start : word.start]))
                rather = f"the sources rather say {word.rather}" if word.rather else "the sources do not say this"
                answer.append(piece._replace(text=word.text, kind="unsupported", details=rather))
                start = word.end
        answer.append(piece._replace(text=text[start:end], cited=marks[part]))
        position = end
    return [piece for piece in answer if piece.text]


def _facts(s: Attribution) -> list[tuple[str, str]]:
    return [("method", method_of(s)), ("model", model_text(s.model))]


def _text(pieces: Sequence[Piece], *, small: bool = False) -> Sentences:
    return Sentences([Sentence("", [pieces])], small=small)


def _links(s: Attribution, verdicts: Sequence[str] = ()) -> Links:
    """Return the links between parts of the answer and sources, by their shares."""
    shares = [[float(f"{share:.3g}") for share in row] for row in shares_grid(s).scores]
    return Links({"shares": shares} | ({"verdicts": list(verdicts)} if verdicts else {}), HINT)


def _prompt(s: Attribution) -> Fold:
    """Return the prompt with its sources as linked pieces, and the text between them in grey."""
    spans, shares, places = [], s.whole().shares, s.units.spans or ((0, 0),) * len(s.units)
    for source, i in enumerate(s.units.sources):
        name = s.units.names[i] if s.units.names[i] != s.units.text[i] else ""
        # A region of a picture whose place is taken has its name there.
        piece = Piece(f"[{name}]" if name else "", name=name, number=f"{shares[i]:.0%}", source=source)
        spans.append((*places[i], piece))
    pieces = cut(s.text or "", sorted(spans, key=lambda span: span[:2]), 0, len(s.prompt or ""), between="grey")
    return Fold("What the model was given", [_text(pieces, small=True)], opened=True)


def _listed(rows: Sequence[tuple[str, str, float, float | None]], caption: str) -> Table:
    """Return a table of sources: name, text, share, and the loss of the answer without each, in nats."""
    has_names, has_losses = any(name for name, *_ in rows), any(nats is not None for *_, nats in rows)
    largest = max(share for _, _, share, _ in rows) or 1.0
    columns = [Column("text"), Column("share", numbers=True)]
    if has_names:
        columns.insert(0, Column("source"))
    if has_losses:
        columns.append(Column("without it", numbers=True))
    body = []
    for name, text, share, nats in rows:
        cells = [cell(text), cell(f"{share:.0%}", share, strength=max(share, 0.0) / largest)]
        if has_names:
            cells.insert(0, cell(name))
        if has_losses:
            cells.append(cell("" if nats is None else f"{-nats:+.1f} nats", nats))
        body.append(cells)
    return Table(columns, body, caption, stacked=True)
