"""What is said of an answer's parts: its sources, its words, and the verdict on each sentence."""

from typing import Literal, NamedTuple

from ..results.verification import likelihood_text
from .verdicts import Check, Judgement

Origin = Literal["documents", "conversation"]
"""Where the sources of an answer come from."""


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
    """A word of an answer, and what its sources say of it.

    Attributes:
        sentence: The index of its sentence.
        text: The word.
        start: Its first character in the text of prompt and answer.
        end: One past its last.
        gain: What its log-probability gains from the sources, in nats; NaN if nothing of the prompt is left without.
        rather: What the sources rather say there; empty if no edit of the word is clearly likelier.
        unsaid: Whether it is marked: the sources do not say it, and the sentence does not rest on them.
    """

    sentence: int
    text: str
    start: int
    end: int
    gain: float
    rather: str
    unsaid: bool


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
    check: Check | None = None

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
