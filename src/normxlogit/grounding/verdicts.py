"""The verdict on a sentence, which follows from facts and measurements by a few rules.

1. Quoted: a source has the sentence word for word.
2. Contradicts: a checker says so; nothing else does.
3. Not from the documents: they make it no likelier, and fewer than a quarter of its numbers, names and long words
   stand there.
4. "42" is in no document: this number or name stands nowhere in the prompt, and the documents make it less likely. What
   they make of the rest of the sentence is not said.
5. Supported by [n]: the documents make it much likelier, and the source that has most of its words (or that it rests on
   most, if this one has the numbers) has all its numbers and names, three quarters of its words, every word that
   surprises the model all the same, and a "not" if it has one and else none. Or a checker finds it entailed, and no
   number and no name of it is missing. Not where a checker finds that no source supports it.
6. Cannot tell: none of these.

A fact and the measurement have to agree before anything is said against a sentence. The thresholds were chosen on data
that other people labelled, see docs/grounding.md.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Literal

from .facts import Facts, StatedWord
from .measured import Reading

Judgement = Literal[
    "quoted", "supported", "missing", "contradicts", "not in the sources", "cannot tell", "not tested", "rests on"
]
"""How a sentence of an answer relates to its sources. A part of a tool's call, which states nothing, rests on some."""

Opinion = Literal["entails", "contradicts", "unsupported", ""]
"""What a checker makes of a sentence: a source entails or contradicts it, or none supports it; empty if it is open."""

Origin = Literal["documents", "conversation"]
"""Where the sources of an answer come from."""

NOWHERE: dict[Origin, str] = {"documents": "no document", "conversation": "no message"}
"""Where a missing word stands, as in "stands in no document"."""

GOOD: tuple[Judgement, ...] = ("quoted", "supported")
"""The verdicts on sentences that the sources support."""

LIKELIER = 0.3
"""Least uncertainty coefficient of a supported sentence."""

NO_LIKELIER = 0.0
"""Largest uncertainty coefficient of a sentence that is said not to be from the sources."""

FEW = 0.25
"""The share of such a sentence's numbers, names and long words that stand in the sources is below this. And the largest
share of a supported one's that the cited source lacks."""

SURPRISE = -8.0
"""Log-probability below which a word surprises the model, in nats: it expects it once in 3,000 times."""

LEAST_WORDS = 2
"""Least numbers, names and long words of such a sentence: one word is too little to go by."""

LESS_LIKELY = -1.0
"""Largest gain of a missing number or name that is named against a sentence, in nats."""


def judgement_of(facts: Facts, reading: Reading, source: int | None, opinion: Opinion = "") -> Judgement:
    """Return the verdict on a sentence.

    Args:
        facts: What it has in common with its sources.
        reading: How likely the model finds it with them and without.
        source: The place of the source that may support it, see `deciding_source`.
        opinion: What a checker makes of it.
    """
    if facts.quoted:
        return "quoted"
    if opinion == "contradicts":
        return "contradicts"
    if is_foreign(facts, reading):
        return "not in the sources"
    if accused_words(facts, reading):
        return "missing"
    if opinion == "unsupported":
        return "cannot tell"
    is_complete = all(word.kind == "word" for word in facts.missing)  # a checker may overlook a number or a name
    if is_supported(facts, reading, source) or (opinion == "entails" and is_complete):
        return "supported"
    return "cannot tell"


def is_foreign(facts: Facts, reading: Reading) -> bool:
    """Return whether the sources make a sentence no likelier, and have few of its words.

    Args:
        facts: The facts of the sentence.
        reading: How likely the model finds it.
    """
    standing, count = sum(bool(word.sources) for word in facts.stated), len(facts.stated)
    has_few = count >= LEAST_WORDS and standing < FEW * count
    # NaN is not less: then nothing is said against the sentence.
    return has_few and not facts.is_of_another_language and reading.coefficient < NO_LIKELIER


def deciding_source(facts: Facts, first: int | None) -> int | None:
    """Return the source that may support a sentence: the nearest one, or the first one if that has numbers it lacks.

    Args:
        facts: The facts of the sentence.
        first: The source on which the sentence rests most, as it was measured; None if none was.
    """
    stated = [word for word in facts.stated if word.kind == "number" and not word.elsewhere]
    lacking = [word for word in stated if facts.nearest not in word.sources]  # the numbers that the nearest one lacks
    has_them = bool(lacking) and all(first in word.sources for word in lacking)
    return first if has_them else facts.nearest


def is_supported(facts: Facts, reading: Reading, source: int | None) -> bool:
    """Return whether the sources make a sentence much likelier, and one of them has what it states.

    That one has all its numbers and names, most of its words and all that another source has, all that surprise the
    model, and something that the rest of the prompt does not have. Only one of the two saying "not" speaks against it.

    Args:
        facts: The facts of the sentence.
        reading: How likely the model finds it; NaN where nothing of the prompt is left without the sources.
        source: The place of that source, see `deciding_source`.
    """
    is_doubtful = source in (*facts.opposed, *facts.doubtful)
    # `not >=`, as NaN is not less either: it supports nothing.
    if is_doubtful or not reading.coefficient >= LIKELIER or _has_surprise(facts, reading, source):
        return False
    stated = [word for word in facts.stated if not word.elsewhere]
    lacking = _lacking(stated, source)
    needed = [word for word in _lacking(facts.words, source) if word.kind != "word"]
    # A word that another source has tells that the sentence is made of both.
    is_complete = not needed and all(not word.sources for word in lacking)
    return is_complete and len(lacking) < len(stated) and len(lacking) <= FEW * len(facts.stated)


def _has_surprise(facts: Facts, reading: Reading, source: int | None) -> bool:
    """Return whether a word of a sentence that a source lacks surprises the model."""
    return any(reading.nats_of(word) < SURPRISE for word in _lacking(facts.words, source))


def _lacking(words: Iterable[StatedWord], source: int | None) -> list[StatedWord]:
    """Return the words that stand neither in a source nor in the rest of the prompt."""
    return [word for word in words if not word.elsewhere and source not in word.sources]


def accused_words(facts: Facts, reading: Reading) -> list[StatedWord]:
    """Return the numbers and names that stand nowhere in the prompt, and that the sources make less likely.

    Args:
        facts: The facts of a sentence.
        reading: How likely the model finds it.
    """
    # Words of another language stand nowhere whatever they say.
    missing = [word for word in facts.missing if word.kind != "word" and not facts.is_of_another_language]
    return [word for word in missing if reading.gain_of(word) <= LESS_LIKELY]


def summary_line(judgements: Iterable[Judgement], origin: Origin) -> str:
    """Return the verdicts on an answer's sentences in one line: "7 of 10 sentences are supported; 2 cannot be told".

    Args:
        judgements: The verdict on each sentence.
        origin: Where the sources come from.
    """
    counts = Counter(judgements)
    total, supported = counts.total(), sum(counts[judgement] for judgement in GOOD)
    noun = "sentence" if total == 1 else "sentences"
    verb = "is" if 1 in (total, supported) else "are"  # "0 of 1 sentence is", "1 of 3 sentences is"
    parts = [f"{supported} of {total} {noun} {verb} supported"]
    for judgement, words in SAID.items():
        if count := counts[judgement]:
            forms = {"be": "is", "have": "has", "s": "s"} if count == 1 else {"be": "are", "have": "have", "s": ""}
            parts.append(f"{count} {words.format(**forms, origin=origin, nowhere=NOWHERE[origin])}")
    return "; ".join(parts)


SAID: dict[Judgement, str] = {
    "missing": "{have} a number or name that is in {nowhere}",
    "cannot tell": "cannot be told",
    "not in the sources": "{be} not from the {origin}",
    "contradicts": "contradict{s} the {origin}",
    "not tested": "{be} not tested",
}
"""How a summary counts the sentences that are not supported."""
