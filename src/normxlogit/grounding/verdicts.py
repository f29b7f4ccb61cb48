"""What a reader of documents makes of a sentence, the verdict that follows, and its support.

D is the log-probability of the sentence's tokens with the documents, N without them. The uncertainty coefficient
1 - D / N, and how much of it one source has, tell whether the sentence comes from them; the gains of its one-word
edits, and how near it is to the documents' own words, tell whether they rather say something else. A logistic
regression for each of the two questions gives a probability, and thresholds give the verdict; both are in
`verdicts.json`, which `python -m benchmarks verdicts` fits.
"""

import json
import math
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from ..results.storage.schema import Index, Number
from ..results.verification import likelihood_text

if TYPE_CHECKING:
    from .checking import Check

Judgement = Literal["rests", "contradicts", "not in the sources", "cannot tell", "not tested"]
"""How a sentence of an answer relates to its sources."""

Origin = Literal["documents", "conversation"]
"""Where the sources of an answer come from."""

NO_GAIN = -8.0
"""The gain where there is no edit, in nats."""

CLEAR = 1.0
"""A word is marked if an edit of it gains this many nats, also beyond what it gains without the sources."""


class WordReading(NamedTuple):
    """A word of an answer."""

    start: Index  # its first character in the text
    end: Index  # one past its last
    text: str
    nats: Number  # the log-probability of its tokens with the sources
    nats_without: Number  # the same without them; NaN if nothing of the prompt is left


class WordEdit(NamedTuple):
    """A sentence with one of its words edited."""

    kind: Literal["replaced", "inserted", "left out", "exchanged"]  # what was done
    start: Index  # the first character of the text that the edit replaces
    end: Index  # one past the last; where words are inserted the same
    text: str  # what stands there instead
    gain: Number = math.nan  # log-probability of the edited sentence less the sentence's, with the sources, in nats
    gain_without: Number = math.nan  # the same without the sources; NaN if not measured

    @property
    def due_to_sources(self) -> float:
        """The gain, or what of it is not gained without the sources, whichever is less."""
        return self.gain if math.isnan(self.gain_without) else min(self.gain, self.gain - self.gain_without)

    def edits(self, word: WordReading) -> bool:
        """Return whether a word is edited, or text inserted before it."""
        return self.start < word.end and word.start < max(self.end, self.start + 1)

    def described(self, text: str) -> str:
        """Return what the sources rather say than a text, such as '"twelve" than "ten"'."""
        before, after = text[self.start : self.end].strip(), self.text.strip()
        if self.kind == "left out":
            return f'nothing in place of "{before}"'
        if self.kind == "inserted":
            following = text[self.end :].split(maxsplit=1)
            return f'"{after} {following[0]}" than "{following[0]}"' if following else f'"{after}"'
        return f'"{after}" than "{before}"'


class Verdict(NamedTuple):
    """The verdict on a sentence."""

    covered: Number  # the probability that the sources say it, rather than that it is an invention; NaN if unknown
    agreed: Number  # the probability that the sources do not rather say something else
    judgement: Judgement  # what follows


def verdict_of(features: Mapping[str, float], fitted: Mapping[str, Any] | None = None) -> Verdict:
    """Return the verdict that follows from the features of a sentence."""
    fitted = fitted or _fitted()
    covered, agreed = (_probability(fitted[question], features) for question in ("covered", "agreed"))
    thresholds = fitted["thresholds"]
    judgement: Judgement = "cannot tell"
    if covered < thresholds["not in the sources"]:
        judgement = "not in the sources"
    elif agreed < thresholds["contradicts"]:
        judgement = "contradicts"
    elif covered >= thresholds["rests"]["covered"] and agreed >= thresholds["rests"]["agreed"]:
        judgement = "rests"
    return Verdict(covered, agreed, judgement)


def says_it(verdict: Verdict) -> bool:
    """Return whether the reader finds that the sources say a sentence, whatever they rather say of its words."""
    return verdict.covered >= float(_fitted()["thresholds"]["rests"]["covered"])


class Clause(NamedTuple):
    """A clause of a sentence, compared with the sources by itself: another clause may be of another source."""

    start: Index  # its first word among the sentence's
    end: Index  # one past its last
    own_words: Index  # how many of its words stand outside the longest run of words that is in the sources, too
    coverage: Number  # how much of it the nearest source has: the share of its words, rare ones in the sources heavier
    values_elsewhere: tuple[Index, ...]  # the places of its numbers and names that are not in that source


class Reading(NamedTuple):
    """What the reader makes of a sentence."""

    words: tuple[WordReading, ...]
    edits: tuple[WordEdit, ...]  # the edits with the largest gain, the largest first
    clauses: tuple[Clause, ...] = ()

    @property
    def nats(self) -> float:
        """The log-probability of the sentence with the sources."""
        return sum(word.nats for word in self.words)

    @property
    def nats_without(self) -> float:
        """The log-probability of the sentence without the sources; NaN if nothing of the prompt is left."""
        return sum(word.nats_without for word in self.words)

    @property
    def features(self) -> dict[str, float]:
        """The features of the verdict; of clauses counts which has least in the sources, gains are parts of 1 - D."""
        gain = max((edit.gain for edit in self.edits), default=NO_GAIN)
        return {
            "coefficient": max(1 - self.nats / self.nats_without, -1.0) if self.nats_without else math.nan,
            "coverage": min((clause.coverage for clause in self.clauses), default=0.0),
            "best edit": gain / (1 - self.nats),
            "own words": max((clause.own_words for clause in self.clauses), default=0),
            "values elsewhere": float(bool(self.values_elsewhere)),
        }

    @property
    def verdict(self) -> Verdict:
        """The verdict with its probabilities."""
        return verdict_of(self.features)

    @property
    def values_elsewhere(self) -> list[WordReading]:
        """The numbers and names that the nearest source of their clause lacks."""
        return [self.words[place] for clause in self.clauses for place in clause.values_elsewhere]

    @property
    def rather(self) -> WordEdit | None:
        """The edit that says best what the sources rather say, if it gains; enough, where values are elsewhere."""
        best = max(self.edits, key=lambda edit: edit.due_to_sources, default=None)
        least = CLEAR / 2 if self.values_elsewhere else 0.0
        return best if best is not None and best.due_to_sources > least else None

    def contradicted(self, text: str) -> str:
        """Return what the sources rather say than a text: what an edit says, or not the values that they lack."""
        if self.rather is not None:
            return self.rather.described(text)
        quoted = ", ".join(f'"{text[word.start : word.end]}"' for word in self.values_elsewhere)
        return f"something else than {quoted}" if quoted else ""

    def edit_of(self, word: WordReading) -> WordEdit | None:
        """Return the best edit of one word alone; None if none is clearly gained from the sources."""
        edits = [
            edit
            for edit in self.edits
            if edit.due_to_sources >= CLEAR
            and edit.edits(word)
            and (edit.kind == "exchanged" or sum(map(edit.edits, self.words)) == 1)
        ]
        return max(edits, key=lambda edit: edit.due_to_sources, default=None)

    def unsaid(self, word: WordReading, judgement: Judgement) -> bool:
        """Return whether the sources do not say a word: they lack it, make it no likelier, or rather say another."""
        if judgement == "rests":
            return False
        place, rather = self.words.index(word), self.rather
        if word in self.values_elsewhere or (judgement == "contradicts" and rather is not None and rather.edits(word)):
            return True
        least = min(self.clauses, key=lambda clause: clause.coverage) if len(self.clauses) > 1 else None
        of_least = judgement == "cannot tell" and least is not None and least.start <= place < least.end
        in_doubt = judgement == "not in the sources" or of_least
        return (in_doubt and not word.nats > word.nats_without + CLEAR) or self.edit_of(word) is not None


class Source(NamedTuple):
    """A source of an answer.

    Attributes:
        number: Its number in the answer, counted from 1; None if the answer does not cite it.
        source: Its place among the sources.
        document: The name of the document or message that it is of.
        name: What it is called: its document and which sentence of it.
        text: Its text.
        share: Its share of all that the sources have in favour of the whole answer, or of the sentence asked for.
        nats: The drop of the answer's log-probability without it; None if not measured.
    """

    number: int | None
    source: int
    document: str
    name: str
    text: str
    share: float
    nats: float | None


class AnswerWord(NamedTuple):
    """A word of an answer, and what its sources say of it."""

    sentence: int  # the index of its sentence
    text: str
    start: int  # its first character in the text of prompt and answer
    end: int  # one past its last
    gain: float  # of its log-probability from the sources, in nats; NaN if nothing of the prompt is left without
    rather: str  # what the sources rather say there; empty if no edit of the word is clearly likelier
    unsaid: bool  # whether it is marked: the sources do not say it, and the sentence does not rest on them


class Support(NamedTuple):
    """The support of a sentence of the answer.

    It says what this model used, not what is true: a sentence can rest on a document that is wrong. Of a conversation
    the documents are what was said before the answer, without the question.

    Attributes:
        text: The sentence.
        judgement: The verdict as one word.
        share: The share of the sources in its scores, beside the rest of the prompt and the earlier answer; 0 where
            scores do not add up.
        citations: Numbers of the cited sources; none if the sentence is not in the sources.
        loss: The drop of its log-probability without all documents, in nats; None if not measured.
        covered: The probability that the sources say it, rather than that it is an invention; None if not measured.
        agreed: The probability that they do not rather say something else; None if not measured.
        rather: What the sources rather say, such as '"twelve" than "ten"', or 'something else than "ten"' of a number
            or a name that they lack; empty if neither is found.
        quoted: Whether it stands in a source word for word.
        messages: The messages that its citations are of, one for each; empty if they are of documents.
        origin: "documents" or "conversation", for the verdict.
        sources: The places of the cited sources among all.
        check: What the checker makes of it; None without one.
    """

    text: str
    judgement: Judgement
    share: float
    citations: tuple[int, ...]
    loss: float | None = None
    covered: float | None = None
    agreed: float | None = None
    rather: str = ""
    quoted: bool = False
    messages: tuple[str, ...] = ()
    origin: Origin = "documents"
    sources: tuple[int, ...] = ()
    check: "Check | None" = None

    @property
    def rests(self) -> bool:
        """Whether the sentence rests on its sources."""
        return self.judgement == "rests"

    @property
    def verdict(self) -> str:
        """The verdict as a text."""
        numbers_by_message: dict[str, str] = {}  # "user": "[1][3]"
        for number, message in zip(self.citations, self.messages or [""] * len(self.citations), strict=True):
            numbers_by_message[message] = numbers_by_message.get(message, "") + f"[{number}]"
        cited = ", ".join(f"{message} {numbers}".strip() for message, numbers in numbers_by_message.items())
        on, says = cited or f"the {self.origin}", "says" if self.origin == "conversation" else "say"
        if self.judgement == "rests":
            return f"rests on {on}" + (", word for word" if self.quoted else "")
        if self.judgement == "contradicts":
            return f"contradicts {on}" + (f": the {self.origin} rather {says} {self.rather}" if self.rather else "")
        if self.judgement == "not in the sources":
            return f"not in the {self.origin}"
        return self.judgement + (f"; compare {cited}" if cited else "")

    @property
    def reason(self) -> str:
        """The figures behind the verdict, as a text."""
        figures = []
        if self.covered is not None and self.agreed is not None:
            figures.append(f"in the {self.origin} {self.covered:.0%}, nothing else said {self.agreed:.0%}")
        if self.share:
            figures.append(f"share of the {self.origin} {self.share:.0%}")
        if self.loss is not None:
            figures.append(f"{likelihood_text(-self.loss)} without the {self.origin}")
        if self.check is not None and self.check.label:
            words, source_words = (", ".join(words) for words in (self.check.words, self.check.source_words))
            deciding = f' by "{words}" and of the source "{source_words}"' if words or source_words else ""
            figures.append(f"checker: {self.check.label} {self.check.probability:.0%}{deciding}")
        return "; ".join(figures)


@cache
def _fitted() -> dict[str, Any]:
    """Return the fitted coefficients and thresholds."""
    state: dict[str, Any] = json.loads(files("normxlogit.grounding").joinpath("verdicts.json").read_text("utf-8"))
    return state


def _probability(fitted: Mapping[str, Any], features: Mapping[str, float]) -> float:
    """Return the probability of a fitted regression."""
    values = np.array([features[name] for name in fitted["weights"]])
    logit = fitted["intercept"] + float(values @ np.array(list(fitted["weights"].values())))
    return 1 / (1 + math.exp(-min(max(logit, -500.0), 500.0))) if math.isfinite(logit) else math.nan
