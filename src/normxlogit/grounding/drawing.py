"""The blocks of an answer with citations: its text or conversation, the verdicts and the sources."""

from collections.abc import Sequence

import numpy as np

from ..render.blocks import Block, Chat, Column, Fold, Header, Paragraph, Piece, Table, Turn, cell
from ..render.charts import Legend
from ..render.cutting import answer_pieces, cut
from ..render.describe import removals_table
from ..render.reasoning import ways_of
from ..render.source_links import links_of
from ..render.sources import SHARE, SourceRow, as_sentences, facts_of, prompt_fold, source_table
from .result import MEDIA, Citations

MATTERS = 0.05
"""A message with this share of some sentence of the answer is never folded."""

LONG = 400
"""Messages of more characters are folded otherwise."""


def citation_blocks(cited: Citations) -> list[Block]:
    """Return the blocks of an answer with citations: the text or conversation, verdicts and sources."""
    s, name, support, words = cited.attribution, cited.origin, cited.support, cited.words
    verdict_of = dict(zip(cited.concluding, (sentence.verdict for sentence in support), strict=True))
    answer, all_sources = _marked_answer(cited), cited.top(len(cited.sources))
    unsaid = [", ".join(w.text for w in words if w.sentence == k and w.unsaid) for k in range(len(support))]
    verdicts = [[cell(of.text), cell(of.verdict), cell(not_said)] for of, not_said in zip(support, unsaid, strict=True)]
    columns = [Column("sentence"), Column("verdict"), Column("words not said there")]
    tested = [source for source in all_sources if source.number is None and source.nats is not None]
    shown = [*cited.citations(), *tested]
    rows = [SourceRow(f"[{of.number}] {of.name}" if of.number else of.name, of.text, of.share, of.nats) for of in shown]
    are_larger = cited.verified is not None and any(len(removal.tokens) > 1 for removal in cited.verified.single)
    reasons = [[cell(sentence.text), cell(sentence.reason)] for sentence in support if sentence.reason]
    figures = Table([Column("sentence"), Column("figures")], reasons, stacked=True)
    losses = source_table(rows, "What the answer loses without each") if rows else None
    underlined = f"underlined: a word that the {name} {'do' if name == 'documents' else 'does'} not say"
    prompt = Fold("The prompt as the model reads it", [as_sentences([Piece(s.prompt or "")], small=True)])
    return [
        Header("", [("question", cited.question), *facts_of(s)], s.notes),
        _chat_of(cited, answer) if cited.messages else as_sentences(answer),
        links := links_of(cited.direct_evidence, [verdict_of.get(k, "reasoning") for k in range(len(s.targets))], s),
        *ways_of(s, links.data["shares"]),
        Table(columns, verdicts, f"Does the answer rest on the {name}?", stacked=True),
        *removals_table(cited.verified if are_larger else None),
        source_table([row._replace(nats=None) for row in rows], "Sources") if rows else Paragraph("no source is cited"),
        Legend(SHARE.format("a"), styles=[underlined] if any(piece.kind == "unsupported" for piece in answer) else []),
        *([Fold("Figures behind the verdicts", [figures, losses])] if losses else []),
        prompt if cited.messages else prompt_fold(cited.evidence),
    ]


def _marked_answer(cited: Citations) -> list[Piece]:
    """Return the answer in pieces, each sentence with the numbers of its citations, and each unsaid word by itself."""
    answer, marks, text = [], dict(zip(cited.concluding, cited.marks, strict=True)), cited.text
    unsaid = [word for word in cited.words if word.unsaid]
    position = len(text) - len(cited.answer)
    for piece in answer_pieces(cited.attribution):
        if (part := piece.part) is None:
            answer.append(piece)
            position += len(piece.text)
            continue
        start, end = position, position + len(piece.text)
        for word in unsaid:
            if start <= word.start and word.end <= end:
                answer.append(piece._replace(text=text[start : word.start]))
                rather = f"the sources rather say {word.rather}" if word.rather else "the sources do not say this"
                answer.append(piece._replace(text=word.text, kind="unsupported", details=rather))
                start = word.end
        answer.append(piece._replace(text=text[start:end], cited=marks.get(part, ())))
        position = end
    # A space between two words is nothing that can be chosen.
    return [p if p.text.strip() else p._replace(part=None, source=None) for p in answer if p.text]


def _chat_of(cited: Citations, answer: Sequence[Piece]) -> Chat:
    """Return a conversation and the answer with its marks; long messages that it does not rest on are folded."""
    sentences = np.nan_to_num(cited.sentence_shares)  # (K, S)
    numbers: dict[int, tuple[int, ...]] = {source.source: (k,) for k, source in enumerate(cited.citations(), 1)}
    shares, indices = np.nan_to_num(cited.shares), cited.message_indices  # (S,)
    sources = [
        (*span, Piece("", name=name, number=f"{shares[s]:.0%}", source=s, cited=numbers.get(s, ())))
        for s, (span, name) in enumerate(zip(cited.spans, cited.names, strict=True))
    ]
    question = max((i for i, message in enumerate(cited.messages) if message.role == "user"), default=-1)
    turns = []
    for index, message in enumerate(cited.messages):
        inside = [s for s, of in enumerate(indices) if of == index]
        if message.role in MEDIA:  # whose placeholder says nothing
            pieces = [sources[s][-1]._replace(text=f"[{message.role}]") for s in inside]
        else:
            pieces = cut(cited.text, [sources[s] for s in inside], message.start, message.end)
        share = float(np.clip(shares[inside].sum(), 0.0, 1.0)) if inside else None  # None of the question
        length = message.end - message.start
        matters = index == question or any(s in numbers or sentences[:, s].max() >= MATTERS for s in inside)
        folded = f"{length:,} characters" if length > LONG and not matters else ""
        turns.append(Turn(message.role, message.name, share, pieces, folded))
    return Chat(turns, Turn("answer", "answer", None, answer))
