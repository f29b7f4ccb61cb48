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
    """A note on results, or the reason why rows have none."""

    text: str  # of notes that differ in their numbers alone the first
    rows: int  # how many rows have it
    examples: list[str]  # ids of some of them


@dataclass(frozen=True)
class Unit:
    """A word or token, or the patch or frame at one place, over all inputs of a label."""

    label: str  # the label explained
    text: str  # the word in lower case; row and column of a patch, number of a frame
    count: int  # its occurrences
    mean: float  # its mean score
    low: float  # lower end of the mean's 95% interval
    high: float  # upper end
    examples: list[str]  # ids of inputs where it scores highest (lowest if against the label)


class Share(NamedTuple):
    """A share of texts."""

    part: int  # how many
    texts: int  # of how many
    low: float  # lower end of the 95% interval, as of Wilson (1927)
    high: float  # upper end

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
    """What may decide answers by itself."""

    label: str  # the label that it decides for
    name: str  # the word or words, in lower case; of lengths what they are, in brackets
    texts: int  # how many texts have it; of lengths those longer than the median
    answered: float  # the share of them that are predicted to have the label
    usual: float  # that share of all texts
    score_share: float | None  # mean share of the scores of the texts so predicted; None of lengths
    turned: Share  # of texts with another prediction, those that get this one with it (of lengths: joined)
    changed: Share | None  # of texts with this prediction, those that lose it without it; None where not tried
    words: int = 1  # how many words it is; 0 of lengths

    @property
    def is_wrong(self) -> bool:
        """Whether it turns more answers than a single thing in a text should."""
        return self.turned.low >= WRONG


class WrongAnswer(NamedTuple):
    """A row that the model got wrong."""

    id: str  # its id; with the number of the row where several share it
    prediction: str  # the label that was predicted
    probability: float | None  # its probability, None if there is none
    gold: str  # the right labels
    result: "Attribution | None"  # its attribution; None of a picture or a sound
