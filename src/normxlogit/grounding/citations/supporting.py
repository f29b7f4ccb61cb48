"""What is said of the sentences of an answer: facts and measurements, and the verdicts that follow."""

import math
import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...results.storage.schema import FloatArray, Indices, Strings
from ...results.units.units import APART
from ...results.verification import LEAST_LOSS
from ...text.characters import Span
from ..checkers import COMPARED, Checker, Pair
from ..facts import ComparedText, Facts, StatedWord, facts_of, words_not_in
from ..result import Citations
from ..support import Check, Comparison, Effect, Support
from ..verdicts import Judgement, accused_words, deciding_source, judgement_of
from .cited_answer import Answered
from .reading import AnswerSentence

LEAST = 0.2
"""A further source is cited from this part of the strongest one's share or loss on."""

HALF = 0.5
"""The share of a sentence's numbers, names and long words that a source has beside which it is shown."""

MOST = 3
"""Most sources that a sentence cites by its shares and losses."""


def compared_texts(answered: Answered, names: Sequence[str]) -> tuple[list[ComparedText], ComparedText]:
    """Return sources as texts to be compared with sentences, and all else that the model was given as one text.

    Args:
        answered: The question with its sources and the answer, longer than the model reads or not.
        names: The names of the sources that the model read with the answer; the others are part of all else.
    """
    sequence, spans = answered.completed.sequenced(), answered.completed.named_sources
    placed = [spans.get(name, (0, 0)) for name in names]
    rest = list(sequence.text[: sequence.prompt_characters])
    for start, end in placed:
        rest[start:end] = "\n" * (end - start)
    all_else = _NUMBERED.sub("", f"{''.join(rest)}\n{answered.unread}")
    return [ComparedText(sequence.text[start:end]) for start, end in placed], ComparedText(all_else)


def with_support(
    cited: Citations,
    answered: Answered,
    sentences: Sequence[AnswerSentence],
    checker: Checker | None = None,
) -> Citations:
    """Return an answer with what is said of each of its sentences.

    Args:
        cited: The answer with its attribution, measurements and losses.
        answered: The question with its sources.
        sentences: Where its sentences are in its text.
        checker: A second opinion.
    """
    sources, others = compared_texts(answered, cited.names)
    spans = [(sentence.start, sentence.end) for sentence in sentences]
    facts = tuple(facts_of(cited.text, span, sources, others) for span in spans)
    reasoned = len(cited.concluding) < len(cited.attribution.targets)
    losses = np.full_like(cited.source_losses, np.nan) if reasoned else cited.source_losses  # (K, S)
    measured = [_measured_sources(cited, k, losses[k]) for k in range(len(losses))]
    opinions = _checked(cited, facts, measured, checker)
    numbers: dict[int, int] = {}  # of each cited source, counted from 1 in the order of their first citation
    support = []
    for k, span in enumerate(spans):
        said = _support_of(cited, k, span, facts[k], measured[k], opinions[k])
        citations = tuple(numbers.setdefault(source, len(numbers) + 1) for source in said.sources)
        support.append(said._replace(citations=citations))
    return replace(cited, facts=facts, support=tuple(support))


def _support_of(cited: Citations, k: int, span: Span, facts: Facts, measured: Indices, check: Check | None) -> Support:
    """Return what is said of a sentence, without the numbers of its citations."""
    reading = cited.readings[k] if cited.readings else None
    deciding = deciding_source(facts, next(iter(measured), None))
    judgement = _judgement(cited, k, facts, deciding, check)
    sources = _shown_sources(judgement, facts, measured, deciding, check)
    return Support(
        text=cited.sentences[k],
        judgement=judgement,
        origin=cited.origin,
        sources=sources,
        messages=tuple(cited.documents[source] for source in sources) if cited.messages else (),
        share=_share_of_sources(cited, k),
        gain=math.nan if reading is None else reading.gain,
        largest_loss=_largest_loss(cited, k),
        best_alone=_best_alone(cited, k),
        missing=_texts(facts.missing),
        against=_texts(accused_words(facts, reading)) if reading is not None and judgement == "partly" else (),
        compared=_compared(cited, span, judgement, sources, facts),
        check=check,
    )


def _compared(
    cited: Citations, span: Span, judgement: Judgement, sources: Sequence[int], facts: Facts
) -> Comparison | None:
    """Return a sentence beside a source, with the words in which they differ; None of a quotation, or without one.

    It is the source that decides, or else the nearest one if that has half of what the sentence states.
    """
    is_decided = judgement in ("supported", "contradicts") and bool(sources)
    beside = sources[0] if is_decided else facts.nearest
    standing = sum(beside in word.sources for word in facts.stated)
    is_near = is_decided or standing >= HALF * len(facts.stated)
    if judgement in ("quoted", "rests on") or beside is None or not is_near:
        return None
    places = span, cited.spans[beside]
    return Comparison(beside, words_not_in(cited.text, *places), words_not_in(cited.text, *reversed(places)))


def _texts(words: Sequence[StatedWord]) -> Strings:
    """Return the texts of words, each once."""
    return tuple(dict.fromkeys(word.text for word in words))


def _judgement(cited: Citations, k: int, facts: Facts, deciding: int | None, check: Check | None) -> Judgement:
    """Return the verdict on a sentence; of a picture or a sound it follows from the loss without all sources."""
    if cited.action is not None:
        return "rests on"
    if cited.readings:
        return judgement_of(facts, cited.readings[k], deciding, "" if check is None else check.opinion)
    if facts.quoted:
        return "quoted"
    loss = float(cited.sentence_losses[k])
    return "not tested" if math.isnan(loss) else "supported" if loss > LEAST_LOSS else "cannot tell"


def _measured_sources(cited: Citations, k: int, losses: FloatArray) -> Indices:
    """Return the sources that a sentence rests on most, as it was measured, the strongest first.

    The first one is of the document after which alone the sentence is likeliest, if it gains enough from it.

    Args:
        cited: The answer.
        k: The sentence.
        losses: What it loses without each source, see `cited_sources`.
    """
    sources = cited_sources(cited.sentence_shares[k], losses)
    best = _best_alone(cited, k)
    if best is None or best.nats < LEAST_LOSS:
        return sources
    ranked = cited.top(len(cited.sources), sentence=k)
    first = next(source.source for source in ranked if source.document == best.name)
    return tuple(dict.fromkeys([first, *sources]))[:MOST]


def cited_sources(shares: FloatArray, losses: FloatArray) -> Indices:
    """Return the sources that a sentence rests on most: removed ones by their losses, the others by their shares.

    Args:
        shares: The sources' shares of its scores, (S,).
        losses: What it loses without each, in nats, (S,); NaN if not removed, and where a reasoning stands before the
            answer: shares follow it, while losses are of an answer without it.
    """
    is_measured = ~np.isnan(losses)  # (S,)
    by_share = _by_share(np.where(is_measured, 0, shares), first=not is_measured.any())
    return tuple(dict.fromkeys([*_by_loss(losses), *by_share]))[:MOST]


def _by_loss(losses: FloatArray) -> list[int]:
    """Return the sources without which a sentence loses enough, (S,), the largest loss first."""
    losing = [source for source in _ranked(losses) if losses[source] > LEAST_LOSS]
    return [source for source in losing if losses[source] > LEAST * losses[losing[0]]]


def _by_share(shares: FloatArray, *, first: bool) -> list[int]:
    """Return the sources with large shares, (S,), the largest first; of small ones the `first`, if that is wanted."""
    positive = [source for source in _ranked(shares) if shares[source] > 0]
    return [source for source in positive if shares[source] >= LEAST] or positive[:first]


def _ranked(values: FloatArray) -> list[int]:
    """Return the places of values, (S,), the largest first; NaN last."""
    return np.argsort(-values, kind="stable").tolist()


def _shown_sources(
    judgement: Judgement, facts: Facts, measured: Indices, deciding: int | None, check: Check | None
) -> Indices:
    """Return the sources that a sentence cites: none if it is not from them, the one that decides if there is one."""
    if judgement == "not in the sources":
        return ()
    if judgement == "rests on":
        return measured
    if judgement == "quoted":
        return tuple(source for source in (*measured, *facts.quoted) if source in facts.quoted)[:1]
    if judgement in ("contradicts", "supported"):
        return _deciding_sources(measured, deciding, check)
    return measured if facts.nearest is None else tuple(dict.fromkeys([*measured, facts.nearest]))


def _deciding_sources(measured: Indices, deciding: int | None, check: Check | None) -> Indices:
    """Return the source that a checker or the facts decide by; those that were measured if neither names one."""
    if check is not None and check.decides:
        return (check.source,)
    return measured if deciding is None else (deciding,)


def _checked(
    cited: Citations, facts: Sequence[Facts], measured: Sequence[Sequence[int]], checker: Checker | None
) -> Sequence[Check | None]:
    """Return what a checker makes of each sentence; None without one."""
    if checker is None or not cited.readings:
        return [None] * len(facts)
    texts = [cited.text[start:end].strip() for start, end in cited.spans]
    if checker.marks_words:
        return checker.mark(cited.question, "\n".join(texts), cited.sentences)
    groups = [_first_sources(cited, k, facts[k], measured[k], texts) for k in range(len(facts))]
    pairs = [
        [Pair(cited.question, texts[source], sentence) for source in group]
        for sentence, group in zip(cited.sentences, groups, strict=True)
    ]
    checks = checker.compare(pairs)
    return [
        check._replace(source=group[check.source]) if group else check
        for check, group in zip(checks, groups, strict=True)
    ]


def _first_sources(cited: Citations, k: int, facts: Facts, measured: Sequence[int], texts: Sequence[str]) -> list[int]:
    """Return the sources that a checker compares a sentence with: those it rests on, the nearest one, the next ones."""
    ranked = [*measured, *([] if facts.nearest is None else [facts.nearest])]
    ranked += [source.source for source in cited.top(len(texts), sentence=k)]
    return [source for source in dict.fromkeys(ranked) if texts[source]][:COMPARED]


def _share_of_sources(cited: Citations, k: int) -> float:
    """Return the sources' share of a sentence's scores; 0 where scores do not add up."""
    a = cited.conclusion
    if a.bias is None:
        return 0.0
    scores, kinds = a.scores[k].astype(np.float64), np.array(a.units.kind)  # (U,) each
    parts = [scores[a.units.sources].sum(), *(scores[kinds == kind].sum() for kind in APART)]
    return float(parts[0] / (np.abs(parts).sum() or 1.0))


def _largest_loss(cited: Citations, k: int) -> Effect | None:
    """Return the source without which a sentence loses most, if any was left out by itself."""
    losses = cited.source_losses[k]  # (S,)
    if np.isnan(losses).all():
        return None
    source = int(np.nanargmax(losses))
    return Effect(cited.names[source], float(losses[source]))


def _best_alone(cited: Citations, k: int) -> Effect | None:
    """Return the document after which alone a sentence is likeliest, if any was read alone."""
    best = cited.top_documents(1, sentence=k)[0]
    return None if best.nats is None else Effect(best.name, best.nats)


_NUMBERED = re.compile(r"^document \d+:?$", re.MULTILINE)
"""The name of a document that has none, which says nothing."""
