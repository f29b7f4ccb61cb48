"""The verdict on a sentence, which follows from facts and measurements by a few rules.

1. Quoted: a source has the sentence word for word.
2. Contradicts: a checker says so; nothing else does.
3. Not from the documents: they make it no likelier, and fewer than a quarter of its numbers, names and long words
   stand there.
4. Partly: a number or a name stands nowhere in the prompt, and the documents make it less likely.
5. Supported by [n]: the documents make it much likelier, and the cited sources have its numbers and names, and half of
   its words. Or a checker finds it entailed, and no number and no name of it is missing. Not where a checker finds
   that no source supports it.
6. Cannot tell: none of these.

A fact and the measurement have to agree before anything is said against a sentence. The thresholds were chosen on data
that other people labelled, see docs/grounding.md.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Literal

from .facts import Facts, StatedWord
from .measured import Reading

Judgement = Literal["quoted", "supported", "partly", "contradicts", "not in the sources", "cannot tell", "not tested"]
"""How a sentence of an answer relates to its sources."""

Opinion = Literal["entails", "contradicts", "unsupported", ""]
"""What a checker makes of a sentence: a source entails or contradicts it, or none supports it; empty if it is open."""

Origin = Literal["documents", "conversation"]
"""Where the sources of an answer come from."""

GOOD: tuple[Judgement, ...] = ("quoted", "supported")
"""The verdicts on sentences that the sources support."""

LIKELIER = 0.3
"""Least uncertainty coefficient of a supported sentence."""

HALF = 0.5
"""Least share of its numbers, names and long words that stand in the cited sources, or in the question."""

NO_LIKELIER = 0.0
"""Largest uncertainty coefficient of a sentence that is said not to be from the sources."""

FEW = 0.25
"""The share of such a sentence's numbers, names and long words that stand in the sources is below this."""

LEAST_WORDS = 2
"""Least numbers, names and long words of such a sentence: one word is too little to go by."""

LESS_LIKELY = -1.0
"""Largest gain of a missing number or name that is named against a sentence, in nats."""


def judgement_of(facts: Facts, reading: Reading, stating: Collection[int] | None, opinion: Opinion = "") -> Judgement:
    """Return the verdict on a sentence.

    Args:
        facts: What it has in common with its sources.
        reading: How likely the model finds it with them and without.
        stating: The places of the sources that have what it states; None if they lack a number or a name of it.
        opinion: What a checker makes of it.
    """
    if facts.quoted:
        return "quoted"
    if opinion == "contradicts":
        return "contradicts"
    if is_foreign(facts, reading):
        return "not in the sources"
    if accused_words(facts, reading):
        return "partly"
    if opinion == "unsupported":
        return "cannot tell"
    is_complete = all(word.kind == "word" for word in facts.missing)
    if is_supported(facts, reading, stating) or (opinion == "entails" and is_complete):
        return "supported"
    return "cannot tell"


def is_foreign(facts: Facts, reading: Reading) -> bool:
    """Return whether the sources make a sentence no likelier, and have few of its words.

    Args:
        facts: The facts of the sentence.
        reading: How likely the model finds it.
    """
    standing = share_standing([bool(word.sources) for word in facts.words])
    return len(facts.words) >= LEAST_WORDS and standing < FEW and reading.coefficient < NO_LIKELIER


def is_supported(facts: Facts, reading: Reading, stating: Collection[int] | None) -> bool:
    """Return whether the sources make a sentence much likelier, and some of them have what it states.

    Args:
        facts: The facts of the sentence.
        reading: How likely the model finds it.
        stating: The places of the sources that have what it states; None if they lack a number or a name of it.
    """
    if stating is None or not reading.coefficient >= LIKELIER:  # NaN where nothing of the prompt is left without them
        return False
    says_more = any(word.sources and not word.elsewhere for word in facts.words)
    return says_more and share_standing([_stands(word, stating) for word in facts.words]) >= HALF


def accused_words(facts: Facts, reading: Reading) -> list[StatedWord]:
    """Return the numbers and names that stand nowhere in the prompt, and that the sources make less likely.

    Args:
        facts: The facts of a sentence.
        reading: How likely the model finds it.
    """
    missing = [word for word in facts.missing if word.kind != "word"]
    return [word for word in missing if reading.gain_of(word) <= LESS_LIKELY]


def share_standing(stands: Sequence[bool]) -> float:
    """Return the share of a sentence's numbers, names and long words that stand somewhere; 1 if it has none.

    Args:
        stands: Whether each stands there.
    """
    return sum(stands) / len(stands) if stands else 1.0


def summary_line(judgements: Iterable[Judgement], origin: Origin) -> str:
    """Return the verdicts on an answer's sentences in one line: "7 of 10 sentences are supported; 2 cannot be told".

    Args:
        judgements: The verdict on each sentence.
        origin: Where the sources come from.
    """
    counts = Counter(judgements)
    total, supported = counts.total(), sum(counts[judgement] for judgement in GOOD)
    noun = "sentence" if total == 1 else "sentences"
    verb = _be(1 if total == 1 else supported)
    parts = [f"{supported} of {total} {noun} {verb} supported"]
    for judgement, words in SAID.items():
        if count := counts[judgement]:
            parts.append(f"{count} {words.format(be=_be(count), s='s' if count == 1 else '', origin=origin)}")
    return "; ".join(parts)


SAID: dict[Judgement, str] = {
    "partly": "{be} supported in part",
    "cannot tell": "cannot be told",
    "not in the sources": "{be} not from the {origin}",
    "contradicts": "contradict{s} the {origin}",
    "not tested": "{be} not tested",
}
"""How a summary counts the sentences that are not supported."""


def _be(count: int) -> str:
    return "is" if count == 1 else "are"


def _stands(word: StatedWord, cited: Collection[int]) -> bool:
    """Return whether a word stands in one of the cited sources, or in another part of the prompt."""
    return word.elsewhere or any(source in cited for source in word.sources)
