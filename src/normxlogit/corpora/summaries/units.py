"""The rows of a summary's tables."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ...results.attribution import Attribution

Z = 1.96
"""Standard errors of a 95% interval."""

WRONG = 2 / 3
"""A reason is called wrong from this lower end of the share on of texts with another answer that it turns."""

NAMES = {
    "words": ("word", "texts"),
    "tokens": ("token", "texts"),
    "patches": ("patch", "pictures"),
    "frames": ("frame", "sounds"),
}
"""The singular name of a unit, and the name of rows."""

SIGNALS = {"picture": "patches", "sound": "frames"}
"""The units of results that are not of texts, by their kind."""


class RowNote(NamedTuple):
    """A note on results, or the reason why rows have none.

    Attributes:
        text: The reason or the note; of notes that differ in their numbers alone the first.
        rows: How many rows have it.
        examples: Ids of some of them.
    """

    text: str
    rows: int
    examples: list[str]


@dataclass(frozen=True)
class Unit:
    """A word or token, or the patch or frame at one place, over all inputs of a label.

    Attributes:
        label: The label explained.
        text: The word in lower case; row and column of a patch, number of a frame.
        count: Its occurrences.
        mean: Its mean score.
        low: Lower end of the 95% interval of the mean; of one occurrence the mean, as there is none.
        high: Upper end.
        examples: Ids of inputs where it scores highest, or lowest where it speaks against the label; with the number of
            the row where several share an id.
    """

    label: str
    text: str
    count: int
    mean: float
    low: float
    high: float
    examples: list[str]


class Share(NamedTuple):
    """A share of texts.

    Attributes:
        part: How many.
        texts: Of how many.
        low: Lower end of the 95% interval of the share, as of Wilson (1927).
        high: Upper end.
    """

    part: int
    texts: int
    low: float
    high: float

    @property
    def value(self) -> float:
        """The share."""
        return self.part / self.texts


def share_of(outcomes: Sequence[bool]) -> Share | None:
    """Return the share of what is true; None of nothing."""
    if not outcomes:
        return None
    n, p = len(outcomes), sum(outcomes) / len(outcomes)
    middle, half = p + Z**2 / (2 * n), Z * sqrt(p * (1 - p) / n + Z**2 / (4 * n**2))
    return Share(sum(outcomes), n, *(max(0.0, (middle + side * half) / (1 + Z**2 / n)) for side in (-1, 1)))


@dataclass(frozen=True)
class Reason:
    """What may decide answers by itself.

    Attributes:
        label: The label that it decides for.
        name: The word or words, in lower case; of lengths what they are, in brackets.
        texts: How many texts have it; of lengths those that are longer than the median.
        answered: The share of them that are predicted to have the label.
        usual: That share of all texts.
        score_share: Its mean share of the scores of the texts with this prediction; None of lengths.
        turned: Of texts with another prediction, the share that get this one when it is put in, or when texts of one
            prediction are joined.
        changed: Of texts with this prediction, the share that get another one when it is taken out; None where it was
            not.
        words: How many words it is; 0 of lengths.
    """

    label: str
    name: str
    texts: int
    answered: float
    usual: float
    score_share: float | None
    turned: Share
    changed: Share | None
    words: int = 1

    @property
    def is_wrong(self) -> bool:
        """Whether it turns more answers than a single thing in a text should."""
        return self.turned.low >= WRONG


class WrongAnswer(NamedTuple):
    """A row that the model got wrong.

    Attributes:
        id: Its id; with the number of the row where several share it.
        prediction: The label that was predicted.
        probability: Its probability, None if there is none.
        gold: The right labels.
        result: Its attribution; None of a picture or a sound.
    """

    id: str
    prediction: str
    probability: float | None
    gold: str
    result: "Attribution | None"
