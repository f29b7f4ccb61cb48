"""The blocks of an answer with citations: its text or conversation, the verdicts and the sources."""

from collections.abc import Iterable, Sequence

import numpy as np

from ..render.blocks import Block, Cell, Chat, Column, Fold, Header, Paragraph, Piece, Table, Turn, cell
from ..render.charts import Legend
from ..render.cutting import answer_pieces, cut
from ..render.describe import removals_table
from ..render.reasoning import ways_of
from ..render.source_links import links_of
from ..render.sources import SHARE, SourceRow, as_sentences, facts_of, prompt_fold, source_table
from ..results.units.spans import MessageSpan
from ..results.verification import likelihood_text
from ..text.characters import Span, trimmed
from .result import MEDIA, Citations
from .support import Document, Source
from .verdicts import NOWHERE

MATTERS = 0.05
"""A message with this share of some sentence of the answer is never folded."""

MOST_WORDS = 5
"""Most words that are shown of those that a document shares with question and answer."""

LONG = 400
"""Messages of more characters are folded otherwise."""


def citation_blocks(cited: Citations, *, words: bool | None = None, verbose: bool = False) -> list[Block]:
    """Return the blocks of an answer with citations: verdicts, the text or conversation, and sources.

    Args:
        cited: The answer with its citations.
        words: As of other drawers; sources are drawn as they are.
        verbose: Whether a terminal shows the measurements behind the verdicts, too.
    """
    a, answer = cited.attribution, _marked_answer(cited)
    verdict_of = dict(zip(cited.concluding, (sentence.verdict for sentence in cited.support), strict=True))
    verdicts = [verdict_of.get(k, "reasoning") for k in range(len(a.targets))]
    # Earlier parts by the scores as they are: in those that are weighted, sources and parts do not compare.
    links = links_of(cited.direct_evidence, verdicts, a)
    prompt = Fold("The prompt as the model reads it", [as_sentences([Piece(a.prompt or "")], small=True)])
    underlined = f"underlined: a number, a name or a long word that stands in {NOWHERE[cited.origin]}"
    is_underlined = any(piece.kind == "unsupported" for piece in answer)
    summary = ("verdicts" if cited.action is None else "call", cited.summary)
    return [
        Header("", [summary, ("question", cited.question), *facts_of(a)], a.notes),
        _chat_of(cited, answer) if cited.messages else as_sentences(answer),
        links,
        *ways_of(a, links.data["shares"]),
        *_verdict_table(cited),
        *_comparison_table(cited),
        *_ranking_table(cited),
        *_removals_of_several(cited),
        *_source_tables(cited, verbose=verbose),
        Legend(SHARE.format("a"), styles=[underlined] if is_underlined else []),
        # The turns of a conversation show its sources already.
        prompt if cited.messages else prompt_fold(cited.evidence),
    ]


def _removals_of_several(cited: Citations) -> list[Table]:
    """Return what the answer loses without documents, or other parts of several sources."""
    tested = cited.verified
    if tested is None or all(len(removal.tokens) == 1 for removal in tested.single):
        return []  # the tables of sources say what is lost without each
    return removals_table(tested)


def _stacked(names: Sequence[str], rows: Sequence[Sequence[str | tuple[Piece, ...]]], caption: str = "") -> list[Table]:
    """Return a table of sentences whose columns have names; none without rows."""
    cells = [[cell(part) if isinstance(part, str) else Cell(part) for part in row] for row in rows]
    return [Table([Column(name) for name in names], cells, caption, stacked=True)] if rows else []


def _verdict_table(cited: Citations) -> list[Table]:
    """Return the verdict on each sentence, and its words that stand nowhere; of a call what each part rests on."""
    if cited.action is not None:
        return _part_table(cited)
    rows = [(s.text, s.verdict, ", ".join(s.missing)) for s in cited.support]
    names = ["sentence", "verdict", f"in {NOWHERE[cited.origin]}"]
    return _stacked(names, rows, f"Is each sentence supported by the {cited.origin}?")


def _part_table(cited: Citations) -> list[Table]:
    """Return what each part of a call rests on, what it loses without that, and its words that stand nowhere."""
    rows = []
    for span, sentence in zip(cited.sentence_spans, cited.support, strict=True):
        loss = sentence.largest_loss
        measured = "" if loss is None else f"{likelihood_text(-loss.nats)} without {loss.name}"
        missing = ", ".join(sentence.missing)
        rows.append((sentence.text, cited.text[slice(*span)], sentence.verdict, measured, missing))
    names = ["part", "text", "sources", "measured", f"in {NOWHERE[cited.origin]}"]
    has_other = cited.action is not None and cited.action.other
    caption = "What does the difference rest on?" if has_other else "What does each part of the call rest on?"
    return _stacked(names, rows, caption)


def _comparison_table(cited: Citations) -> list[Table]:
    """Return the sentences beside the sources that they are compared with, the words that differ marked in both."""
    rows = []
    for span, sentence in zip(cited.sentence_spans, cited.support, strict=True):
        if (beside := sentence.compared) is not None:
            source = _marked_words(cited.text, cited.spans[beside.source], beside.source_words)
            rows.append((_marked_words(cited.text, span, beside.words), source))
    caption = "Beside the source that it is compared with; *in stars*: words that the other does not have"
    return _stacked(["sentence", "source"], rows, caption)


def _ranking_table(cited: Citations) -> list[Table]:
    """Return the sentences in the order of their doubt, with what orders them; none if they were not ranked."""
    names = ["sentence", "words in one sentence", "a passage after it, per token"]
    names.append(f"numbers and names in {NOWHERE[cited.origin]}")
    # The first one stands for all: they were calibrated together, or none was.
    names += [
        f"supported among those like it in {each.calibrated_on}" for each in cited.ranking[:1] if each.calibrated_on
    ]
    rows = []
    for sentence in cited.most_doubtful:
        ranked = cited.ranking[sentence]
        figures = [f"{ranked.shared:.0%}", likelihood_text(ranked.passage_gain), str(ranked.missing)]
        figures += [] if ranked.probability is None else [f"{ranked.probability:.0%}"]
        rows.append((cited.sentences[sentence], *figures))
    order = ", the most doubtful first" if len(rows) > 1 else ""
    return _stacked(names, rows, f"How well is each sentence supported by the {cited.origin}{order}?")


def _marked_words(text: str, span: Span, marked: Iterable[Span]) -> tuple[Piece, ...]:
    """Return a part of a text in pieces, some of its words in stars."""
    pieces = cut(text, [(*word, Piece("", kind="unsupported")) for word in marked], *span)
    lines = [piece._replace(text=piece.text.replace("\n", " ")) for piece in pieces]
    return tuple(piece._replace(text=f"*{piece.text}*") if piece.kind else piece for piece in lines)


def _source_tables(cited: Citations, *, verbose: bool) -> list[Block]:
    """Return the cited sources and those that were left out, and the measurements behind the verdicts."""
    tested = [source for source in cited.top(len(cited.sources)) if source.number is None and source.nats is not None]
    sources = [*cited.citations(), *tested]
    names = [source.name if source.number is None else f"[{source.number}] {source.name}" for source in sources]
    rows = [SourceRow(name, s.text, s.share, s.nats) for name, s in zip(names, sources, strict=True)]
    if not rows:
        return [Paragraph("no source is cited"), *_measurements(cited, verbose=verbose)]
    caption = "Sources; without a number: left out as a test, and not cited" if tested else "Sources"
    # Losses are behind the verdicts: their table is folded with the other measurements.
    losses = source_table(rows, "What the answer loses without each")
    without_losses = source_table([row._replace(nats=None) for row in rows], caption)
    return [without_losses, *_measurements(cited, losses, verbose=verbose)]


def _measurements(cited: Citations, *losses: Block, verbose: bool) -> list[Fold]:
    """Return what the model makes of sentences and documents, with other tables; nothing if nothing was measured."""
    figures = [(sentence.text, sentence.reason) for sentence in cited.support if sentence.reason]
    tables = _stacked(["sentence", "the model finds it"], figures, "How likely does the model find each sentence?")
    blocks = [*tables, *_document_table(cited), *losses]
    return [Fold("Measurements behind the verdicts", blocks, essential=verbose)] if figures else []


def _document_table(cited: Citations) -> list[Table]:
    """Return how likely the answer is after each document alone, and what the others make likelier in the best one."""
    documents = cited.top_documents()
    first = documents[0]
    if first.nats is None:  # none was read alone: those that were come first
        return []
    leads = {lead.name: lead.described for lead in cited.leads}
    kind = "message" if cited.messages else "document"
    columns = {
        kind: [document.name for document in documents],
        "the answer after it alone": list(map(_likelihood_alone, documents)),
        "words of question and answer, the rarest first": [
            ", ".join(document.words[:MOST_WORDS]) for document in documents
        ],
        f"in {first.name}, after it rather than after the others": [leads.get(d.name, "") for d in documents],
    }
    shown = {title: cells for title, cells in columns.items() if any(cells)}
    rows = list(zip(*shown.values(), strict=True))
    return _stacked(list(shown), rows, f"How likely is the answer after each {kind} alone?")


def _likelihood_alone(document: Document) -> str:
    """Return how likely the answer is after a document alone, as a text; nothing if that was not measured."""
    return "" if document.nats is None else likelihood_text(document.nats)


def _marked_answer(cited: Citations) -> list[Piece]:
    """Return the answer in pieces, each sentence with the numbers of its citations, each missing word by itself."""
    answer, marks = list[Piece](), dict(zip(cited.concluding, cited.marks, strict=True))
    for piece in answer_pieces(cited.attribution):
        if piece.part is None:  # what stands between sentences
            answer.append(piece)
        else:
            answer += _marked_piece(cited, piece, cited.attribution.target_spans[piece.part])
            # The numbers stand behind the last piece of the sentence; those of reasoning cite nothing.
            answer[-1] = answer[-1]._replace(cited=marks.get(piece.part, ()))
    # A space between two words is nothing that can be chosen.
    return [p if p.text.strip() else p._replace(part=None, source=None) for p in answer if p.text]


def _marked_piece(cited: Citations, piece: Piece, span: Span) -> list[Piece]:
    """Return a sentence of the answer, with its characters in the text, each missing word by itself."""
    (start, end), details = trimmed(cited.text, *span), f"stands in {NOWHERE[cited.origin]}"
    words = [word for facts in cited.facts for word in facts.missing if start <= word.start and word.end <= end]
    placed = [(word.start, word.end, piece._replace(kind="unsupported", details=details)) for word in words]
    return [part if part.details else piece._replace(text=part.text) for part in cut(cited.text, placed, start, end)]


def _chat_of(cited: Citations, answer: Sequence[Piece]) -> Chat:
    """Return a conversation and the answer with its marks; long messages that it does not rest on are folded."""
    by_place = sorted(cited.top(len(cited.sources)), key=lambda source: source.source)
    # The last message of the user is never folded; -1 where there is none.
    question = max((i for i, message in enumerate(cited.messages) if message.role == "user"), default=-1)
    turns = []
    for index, message in enumerate(cited.messages):
        sources = [source for source in by_place if source.document == message.name]
        turns.append(_turn(cited, message, sources, folds=index != question))
    return Chat(turns, Turn("answer", "answer", None, answer))


def _turn(cited: Citations, message: MessageSpan, sources: Sequence[Source], *, folds: bool) -> Turn:
    """Return a message with the share of its sources; None of one without any, such as the question."""
    length, share = message.end - message.start, None
    if sources:
        share = float(np.clip(np.nansum([source.share for source in sources]), 0.0, 1.0))
    shares = np.nan_to_num(cited.sentence_shares[:, [source.source for source in sources]])  # (K, M)
    matters = any(source.number is not None for source in sources) or shares.max(initial=0.0) >= MATTERS
    folded = f"{length:,} characters" if folds and length > LONG and not matters else ""
    return Turn(message.role, message.name, share, _message_pieces(cited, message, sources), folded)


def _message_pieces(cited: Citations, message: MessageSpan, sources: Sequence[Source]) -> list[Piece]:
    """Return a message in pieces, its sources with their shares and numbers; a picture or a sound by its kind."""
    placed = []
    for source in sources:
        share, number = f"{np.nan_to_num(source.share):.0%}", source.number  # NaN where nothing speaks for the answer
        piece = Piece("", name=source.name, number=share, source=source.source, cited=(number,) if number else ())
        placed.append((*cited.spans[source.source], piece))
    if message.role in MEDIA:  # whose placeholder says nothing
        return [piece._replace(text=f"[{message.role}]") for *_, piece in placed]
    return cut(cited.text, placed, message.start, message.end)
