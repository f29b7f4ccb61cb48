"""What is said of each sentence of an answer, its sources and its words."""

import math
from typing import NamedTuple

from ..results.storage.schema import Index, IndexSpans, Indices, Number, Strings
from ..results.verification import likelihood_text
from .verdicts import GOOD, NOWHERE, Judgement, Opinion, Origin

VERDICTS: dict[Judgement, str] = {
    "quoted": "quoted from {by}",
    "supported": "supported by {by}",
    "contradicts": "contradicts {by}",
    "missing": "{against}{beside}",
    "not in the sources": "not from the {origin}",
    "cannot tell": "cannot tell{beside}",
    "not tested": "not tested{beside}",
    "rests on": "rests on {cited}",
}
"""What is printed of each verdict."""


class Document(NamedTuple):
    """A document of an answer, or a message.

    Attributes:
        name: Its name.
        nats: How much likelier the answer, or the sentence asked for, is after it alone than without any of them, in
            nats; None if not measured.
        share: The share of its best source, see `Source`.
        words: The words that it shares with question and answer and that not all documents have, the rarest first.
    """

    name: str
    nats: float | None
    share: float
    words: Strings = ()


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


class Effect(NamedTuple):
    """What a sentence loses without a source, or gains from a document alone.

    Attributes:
        name: The name of the source or document.
        nats: The drop, or the rise, of the sentence's log-probability, in nats.
    """

    name: str
    nats: Number


class Comparison(NamedTuple):
    """A sentence beside a source.

    Attributes:
        source: The place of the source among all.
        words: The words of the sentence that the source does not have.
        source_words: The words of the source that the sentence does not have.
    """

    source: Index
    words: IndexSpans
    source_words: IndexSpans


class Check(NamedTuple):
    """What a checker predicts of a sentence.

    Attributes:
        source: The place of the source that it read among all; -1 if it read all of them at once, or none.
        label: The predicted label.
        probability: Its probability.
        source_words: The words of the source that speak most for the label, the first one most.
        words: Those of the sentence; of a checker that marks words, the marked ones.
        opinion: What the label means; empty if the checker leaves the question open.
    """

    source: int = -1
    label: str = ""
    probability: Number = 0.0
    source_words: Strings = ()
    words: Strings = ()
    opinion: Opinion = ""

    @property
    def decides(self) -> bool:
        """Whether it says of one source that it supports the sentence or not."""
        return bool(self.opinion) and self.source >= 0

    def weight(self) -> tuple[bool, float]:
        """Return how much it counts among comparisons of a sentence with several sources.

        One source that entails or contradicts a sentence decides; that another does not support it says nothing.
        """
        return self.opinion in ("entails", "contradicts"), self.probability

    def described(self) -> str:
        """Return the label with its probability, and the words that decided, as a text."""
        words, source_words = ", ".join(self.words), ", ".join(self.source_words)
        deciding = f' by "{words}"' if words else ""
        deciding += f'{" and" if words else " by"} of the source "{source_words}"' if source_words else ""
        return f"checker: {self.label} {self.probability:.0%}{deciding}"


class Support(NamedTuple):
    """What is said of a sentence of the answer.

    It says what this model used, not what is true: a sentence can be supported by a document that is wrong. Of a
    conversation the documents are what was said before the answer, without the question.

    Attributes:
        text: The sentence.
        judgement: The verdict as one word.
        origin: "documents" or "conversation", for the verdict.
        sources: The places of the cited sources among all.
        citations: Their numbers in the answer.
        messages: The messages that they are of, one for each; empty if they are of documents.
        share: The share of the sources in its scores, beside the rest of the prompt and the earlier answer; 0 where
            scores do not add up.
        gain: What its log-probability gains from all sources, in nats; NaN if not measured.
        largest_loss: The source without which it loses most, of those that were left out one at a time, and what it
            loses, in nats; None if none was left out.
        best_alone: The document after which alone it is likeliest, and what it gains from that; None if none was read
            alone.
        missing: Its numbers, names and long words that stand nowhere in the prompt.
        against: Those of them that the verdict names.
        compared: The source that it is compared with, and the words in which they differ; None if none has its words.
        check: What the checker makes of it; None without one.
    """

    text: str
    judgement: Judgement
    origin: Origin
    sources: Indices = ()
    citations: Indices = ()
    messages: Strings = ()
    share: Number = 0.0
    gain: Number = math.nan
    largest_loss: Effect | None = None
    best_alone: Effect | None = None
    missing: Strings = ()
    against: Strings = ()
    compared: Comparison | None = None
    check: Check | None = None

    @property
    def supported(self) -> bool:
        """Whether the sources support the sentence, or have it word for word."""
        return self.judgement in GOOD

    @property
    def verdict(self) -> str:
        """The verdict as a text, such as "supported by [1]"."""
        cited = self._cited()
        quoted = " and ".join(f'"{word}"' for word in self.against)
        return VERDICTS[self.judgement].format(
            by=cited or f"the {self.origin}",  # where no single source can be named
            cited=cited or "none of what was left out",
            beside=f"; compare {cited}" if cited else "",
            against=f"{quoted} {'is' if len(self.against) == 1 else 'are'} in {NOWHERE[self.origin]}",
            origin=self.origin,
        )

    @property
    def reason(self) -> str:
        """The measurements behind the verdict, as a text."""
        figures = []
        if self.gain == self.gain:  # NaN is not equal to itself: it was not measured
            figures.append(f"{likelihood_text(self.gain)} with the {self.origin}")
        if self.largest_loss is not None:
            figures.append(f"{likelihood_text(-self.largest_loss.nats)} without {self.largest_loss.name}")
        if self.best_alone is not None:
            figures.append(f"{likelihood_text(self.best_alone.nats)} with {self.best_alone.name} alone")
        if self.share:
            figures.append(f"share of the {self.origin} in its scores {self.share:.0%}")
        if self.check is not None and self.check.label:
            figures.append(self.check.described())
        return "; ".join(figures)

    def _cited(self) -> str:
        """Return the cited numbers, of a conversation behind their messages: "user [1][3], system [2]"."""
        numbers_by_message: dict[str, str] = {}  # one entry under "" where sources are of documents
        for number, message in zip(self.citations, self.messages or [""] * len(self.citations), strict=True):
            numbers_by_message[message] = numbers_by_message.get(message, "") + f"[{number}]"
        return ", ".join(f"{message} {numbers}".strip() for message, numbers in numbers_by_message.items())
