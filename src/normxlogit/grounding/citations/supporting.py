"""What is said of the sentences of an answer: facts and measurements, and the verdicts that follow."""

import math
import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...results.attribution import Attribution
from ...results.storage.schema import Indices, Strings
from ...results.units.units import APART
from ...results.verification import LEAST_LOSS
from ...text.characters import Span
from ..checkers import COMPARED, Checker, Pair
from ..facts import ComparedText, Facts, StatedWord, facts_of, words_not_in
from ..result import Citations
from ..support import Check, Comparison, Effect, Support
from ..verdicts import Judgement, accused_words, deciding_source, judgement_of
from .cited_answer import Answered
from .reading import sentence_bodies
from .resting import best_alone, measured_sources, with_best_alone

HALF = 0.5
"""The share of a sentence's numbers, names and long words that a source has beside which it is shown."""

_NUMBERED = re.compile(r"^document \d+:?$", re.MULTILINE)
"""The name of a document that has none, which says nothing."""


def compared_texts(answered: Answered, names: Sequence[str]) -> tuple[list[ComparedText], ComparedText]:
    """Return sources as texts to be compared with sentences, and all else that the model was given as one text.

    Args:
        answered: The question with its sources and the answer, longer than the model reads or not.
        names: The names of the sources that the model read with the answer; the others are part of all else.
    """
    sequence, spans = answered.completed.sequenced(), answered.completed.named_sources
    placed = [spans.get(name, (0, 0)) for name in names]  # a picture has no span, and its text is empty
    # Line breaks in the place of the sources: what stands around one is not joined to a word.
    rest = list(sequence.text[: sequence.prompt_characters])
    for start, end in placed:
        rest[start:end] = "\n" * (end - start)
    all_else = _NUMBERED.sub("", f"{''.join(rest)}\n{answered.prompt.unread}")
    return [ComparedText(sequence.text[start:end]) for start, end in placed], ComparedText(all_else)


def with_support(cited: Citations, answered: Answered, checker: Checker | None) -> Citations:
    """Return an answer with what is said of each of its sentences.

    Args:
        cited: The answer with its attribution, measurements and losses.
        answered: The question with its sources.
        checker: A second opinion.
    """
    texts, others = compared_texts(answered, cited.names)
    spans = sentence_bodies(cited.text, len(cited.text) - len(cited.answer), cited.sentence_spans)
    cited = replace(cited, facts=tuple(facts_of(cited.text, span, texts, others) for span in spans))
    resting = measured_sources(cited)
    measured = [with_best_alone(cited, index, sources) for index, sources in enumerate(resting)]
    checks = _checked(cited, measured, checker)
    numbers: dict[int, int] = {}  # of each cited source, counted from 1 in the order of their first citation
    support = []
    for index, span in enumerate(spans):
        # By its loss or share: after which document alone a sentence is likely says less of a single source.
        deciding = deciding_source(cited.facts[index], next(iter(resting[index]), None))
        said = _support_of(cited, index, span, measured[index], deciding, checks[index])
        citations = tuple(numbers.setdefault(source, len(numbers) + 1) for source in said.sources)
        support.append(said._replace(citations=citations))
    return replace(cited, support=tuple(support))


def _support_of(
    cited: Citations, index: int, span: Span, measured: Indices, deciding: int | None, check: Check | None
) -> Support:
    """Return what is said of a sentence, without the numbers of its citations.

    Args:
        cited: The answer with its facts and measurements.
        index: The sentence, by its place in the answer.
        span: Its characters in the prompt with the answer.
        measured: The sources that it rests on most, see `measured_sources` and `with_best_alone`.
        deciding: The source that may support it, see `deciding_source`.
        check: What a checker makes of it.
    """
    facts, reading = cited.facts[index], cited.readings[index] if cited.readings else None
    judgement = _judgement(cited, index, deciding, check)
    if check is not None and check.decides:  # what is shown beside the verdict is the source that it read
        deciding = check.source
    sources = _shown_sources(judgement, facts, measured, deciding)
    return Support(
        text=cited.sentences[index],
        judgement=judgement,
        origin=cited.origin,
        sources=sources,
        messages=tuple(cited.documents[source] for source in sources) if cited.messages else (),
        share=_share_of_sources(cited.conclusion, index),
        gain=math.nan if reading is None else reading.gain,
        largest_loss=_largest_loss(cited, index),
        best_alone=best_alone(cited, index),
        missing=_texts(facts.missing),
        against=_texts(accused_words(facts, reading)) if reading is not None and judgement == "missing" else (),
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


def _judgement(cited: Citations, index: int, deciding: int | None, check: Check | None) -> Judgement:
    """Return the verdict on a sentence; of a picture or a sound it follows from the loss without all sources."""
    if cited.action is not None:
        return "rests on"
    facts = cited.facts[index]
    if cited.readings:
        return judgement_of(facts, cited.readings[index], deciding, "" if check is None else check.opinion)
    if facts.quoted:
        return "quoted"
    loss = float(cited.sentence_losses[index])
    return "not tested" if math.isnan(loss) else "supported" if loss > LEAST_LOSS else "cannot tell"


def _shown_sources(judgement: Judgement, facts: Facts, measured: Indices, deciding: int | None) -> Indices:
    """Return the sources that a sentence cites: none if it is not from them, the one that decides if there is one.

    Where none decides, it is compared with the nearest one, and those that it rests on and that have one of its words.
    """
    if judgement == "not in the sources":
        return ()
    if judgement == "rests on":
        return measured
    if judgement == "quoted":
        return tuple(source for source in (*measured, *facts.quoted) if source in facts.quoted)[:1]
    if judgement in ("contradicts", "supported"):
        return measured if deciding is None else (deciding,)
    if facts.nearest is None:
        return measured
    with_words = {source for word in facts.stated for source in word.sources}
    return tuple(dict.fromkeys([facts.nearest, *(source for source in measured if source in with_words)]))


def _checked(cited: Citations, measured: Sequence[Indices], checker: Checker | None) -> Sequence[Check | None]:
    """Return what a checker makes of each sentence; None without one.

    Args:
        cited: The answer with its facts.
        measured: The sources that each sentence rests on most.
        checker: The checker.
    """
    if checker is None or not cited.readings:  # without readings no verdict would follow from it
        return [None] * len(measured)
    texts = [cited.text[start:end].strip() for start, end in cited.spans]
    if checker.marks_words:
        return checker.mark(cited.question, "\n".join(texts), cited.sentences)
    groups = [_sources_to_check(cited, index, sources, texts) for index, sources in enumerate(measured)]
    pairs = [
        [Pair(cited.question, texts[source], sentence) for source in group]
        for sentence, group in zip(cited.sentences, groups, strict=True)
    ]
    return [
        # From its place in the group to that among all sources.
        check._replace(source=group[check.source]) if group else check
        for check, group in zip(checker.compare(pairs), groups, strict=True)
    ]


def _sources_to_check(cited: Citations, index: int, measured: Indices, texts: Sequence[str]) -> list[int]:
    """Return the sources that a checker compares a sentence with: those it rests on, the nearest one, the next ones."""
    nearest = cited.facts[index].nearest
    ranked = [source.source for source in cited.top(len(texts), sentence=index)]
    sources: list[int] = [*measured, *([] if nearest is None else [nearest]), *ranked]
    return [source for source in dict.fromkeys(sources) if texts[source]][:COMPARED]  # a picture has no text


def _share_of_sources(answer: Attribution, index: int) -> float:
    """Return the sources' share of a sentence's scores; 0 where scores do not add up.

    Args:
        answer: The attribution of the answer's sentences.
        index: The sentence, by its place in the answer.
    """
    if answer.bias is None:  # as of methods whose scores do not add up
        return 0.0
    scores, kinds = answer.scores[index].astype(np.float64), np.array(answer.units.kind)  # (U,) each
    of_sources = scores[answer.units.sources].sum()
    of_others = [scores[kinds == kind].sum() for kind in APART]
    # Of the magnitudes, as scores against a sentence would cancel others; of none at all, 0.
    return float(of_sources / (np.abs([of_sources, *of_others]).sum() or 1.0))


def _largest_loss(cited: Citations, index: int) -> Effect | None:
    """Return the source without which a sentence loses most, if any was left out by itself."""
    losses = cited.source_losses[index]  # (S,)
    if np.isnan(losses).all():
        return None
    source = int(np.nanargmax(losses))
    return Effect(cited.names[source], float(losses[source]))
