"""What a model makes of the sentences of an answer: how likely it finds them with the sources and without."""

import math
from typing import NamedTuple

from ..results.storage.schema import Index, Number, Strings
from ..results.units.characters import one_line
from ..results.verification import likelihood_text
from .facts import StatedWord
from .ranking import support


class WordReading(NamedTuple):
    """A word of an answer, and how likely the model finds it.

    Attributes:
        start: Its first character in the text of prompt and answer.
        end: One past its last character.
        text: The word.
        nats: The log-probability of its tokens with the sources.
        nats_without: The same without the sources; NaN if nothing of the prompt is left.
    """

    start: Index
    end: Index
    text: str
    nats: Number
    nats_without: Number

    @property
    def gain(self) -> float:
        """What its log-probability gains from the sources, in nats."""
        return self.nats - self.nats_without


class Reading(NamedTuple):
    """A sentence of an answer, and how likely the model finds its words."""

    words: tuple[WordReading, ...]

    @property
    def nats(self) -> float:
        """The log-probability of the sentence with the sources."""
        return sum(word.nats for word in self.words)

    @property
    def nats_without(self) -> float:
        """The log-probability of the sentence without the sources; NaN if nothing of the prompt is left."""
        return sum(word.nats_without for word in self.words)

    @property
    def gain(self) -> float:
        """What the sentence's log-probability gains from the sources, in nats."""
        return self.nats - self.nats_without

    @property
    def coefficient(self) -> float:
        """The part of the sentence's surprise that the sources take away: 1 - D / N, from -1 on; NaN if unknown.

        D is the log-probability with the sources, N without them (the uncertainty coefficient).
        """
        # N is 0 of a sentence without words. Where N is NaN, `max` returns its first argument, which is NaN too.
        return max(1 - self.nats / self.nats_without, -1.0) if self.nats_without else math.nan

    def gain_of(self, stated: StatedWord) -> float:
        """Return what a number, a name or a word of the sentence gains from the sources, in nats; NaN if unknown.

        Args:
            stated: The word.
        """
        words = self._words_in(stated)
        return sum(word.gain for word in words) if words else math.nan

    def nats_of(self, stated: StatedWord) -> float:
        """Return the log-probability of a word, or its least likely part, with the sources, in nats; 0 if unknown.

        Args:
            stated: The word.
        """
        return min((word.nats for word in self._words_in(stated)), default=0.0)  # 0 is no surprise

    def _words_in(self, stated: StatedWord) -> list[WordReading]:
        # Words that overlap: one by the tokens may be a part of a stated one, or hold several.
        return [word for word in self.words if word.start < stated.end and stated.start < word.end]


class DocumentGain(NamedTuple):
    """How much likelier the sentences of an answer are after one document, or message, alone than without any.

    Attributes:
        name: The name of the document or message.
        nats: What the log-probability of each sentence gains, in nats, (K,).
        words: The words that it shares with question and answer and that not all documents have, the rarest first.
        information: What these words say, in nats, see `citations.shared_words`.
    """

    name: str
    nats: tuple[Number, ...]
    words: Strings = ()
    information: Number = 0.0

    def of(self, sentence: int | None) -> float:
        """Return what a sentence gains, by its index, or the whole answer, in nats."""
        return sum(self.nats) if sentence is None else self.nats[sentence]

    def evidence(self, sentence: int | None) -> float:
        """Return what documents are ranked by: the gain of a sentence, or of the answer with the words' information."""
        return self.of(sentence) if sentence is not None else self.of(None) + self.information


class Lead(NamedTuple):
    """What a document makes likelier in the first of the documents, see `Citations.top_documents`.

    Attributes:
        name: The name of the document.
        nats: What five neighbouring tokens of the other one gain from it, in nats, beside the mean of the rest of the
            documents: those that gain most.
        words: Their text.
    """

    name: str
    nats: Number
    words: str

    @property
    def described(self) -> str:
        """The words and how much likelier they are, as a text."""
        return f'"{one_line(self.words)}" is {likelihood_text(self.nats)}'


class RankedSentence(NamedTuple):
    """What orders a sentence among the others of its answer, the most doubtful first.

    Attributes:
        shared: The share of its words that stand in one sentence of the sources.
        passage_gain: How much likelier it makes the passage of the sources that has most of its words, in nats a token.
        missing: How many of its numbers and names stand nowhere in the prompt.
        probability: Of the user's labelled sentences with this support, how many are supported; None where the user
            has not calibrated the model.
        calibrated_on: The file of these sentences.
    """

    shared: Number
    passage_gain: Number
    missing: Index
    probability: Number | None = None
    calibrated_on: str = ""

    @property
    def support(self) -> float:
        """The number that orders sentences: the lower, the more doubtful."""
        return support(self.shared, self.passage_gain, self.missing)
