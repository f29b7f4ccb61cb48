"""What a checker, a model that was trained to say whether a text supports a sentence, makes of a sentence."""

from typing import NamedTuple

from ..results.storage.schema import Number, Strings
from .verdicts import Opinion


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
