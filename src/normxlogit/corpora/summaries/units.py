"""The rows of a summary's tables."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ...long_runs.intervals import wilson_interval

if TYPE_CHECKING:
    from ...results.attribution import Attribution

DECISIVE = 2 / 3
"""Words decide by themselves if the lower end of the share of texts whose answer they turn is at least this."""

LONGER = "(more words than most)"
"""The name of a length as a reason; with two labels the other one is for short texts."""


class UnitNames(NamedTuple):
    """What pages call the units that have scores, and the inputs that they are of."""

    unit: str  # in the singular
    inputs: str  # in the plural


UNIT_NAMES = {
    "words": UnitNames("word", "texts"),
    "tokens": UnitNames("token", "texts"),
    "patches": UnitNames("patch", "pictures"),
    "frames": UnitNames("frame", "sounds"),
}
"""The names for each kind of units."""

SIGNALS = {"picture": "patches", "sound": "frames"}
"""The units of results that are not of texts, by their kind."""


class RowNote(NamedTuple):
    """A note on results, or the reason why rows have none."""

    text: str  # of notes that differ in their numbers alone the first
    rows: int  # how many rows have it
    examples: list[str]  # ids of some of them


class Fall(NamedTuple):
    """How much a label's logit falls where a word is left out, measured with the model."""

    mean: float  # the mean over texts; negative if the logit rises
    low: float  # lower end of the mean's 95% interval, by Student's t
    high: float  # upper end of it
    texts: int  # from how many texts the word was left out
    is_confirmed: bool  # whether the logit surely falls as the score says, and by at least a tenth of the score


@dataclass(frozen=True)
class Unit:
    """A word or token, or the patch or frame at one place, over all inputs of a label.

    A text counts once, however often the unit stands in it, and so do rows of the same text.
    """

    label: str  # the label explained
    text: str  # the word in lower case; row and column of a patch, number of a frame
    texts: int  # in how many texts it stands
    mean: float  # the mean over these texts of its mean score in each
    low: float | None  # lower end of the mean's 95% interval, by Student's t; None of a single text
    high: float | None  # upper end
    examples: list[str]  # ids of inputs where it scores highest (lowest if against the label)
    example_rows: list[int]  # the numbers of their rows
    fall: Fall | None = None  # how much the label's logit falls without it; None if that was not measured


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
    """Return the share of outcomes that are true; None if there are no outcomes."""
    return share(sum(outcomes), len(outcomes)) if outcomes else None


def share(part: int, texts: int) -> Share:
    """Return a share of some texts, of which there is at least one, with its 95% interval (Wilson, 1927).

    Args:
        part: How many have it.
        texts: Of how many.
    """
    return Share(part, texts, *wilson_interval(part / texts, texts))


class LabelAnswers(NamedTuple):
    """The answers to the texts of one right label."""

    label: str
    texts: int  # how many texts have it as the right label
    predictions: dict[str, int]  # how often each label was predicted of them, the most frequent first
    predicted: int  # how many of all texts with a right label are predicted to have it

    @property
    def right(self) -> int:
        """How many of its texts are predicted to have it."""
        return self.predictions.get(self.label, 0)

    @property
    def recall(self) -> Share | None:
        """The share of its texts that are found; None if it has none."""
        return share(self.right, self.texts) if self.texts else None

    @property
    def precision(self) -> Share | None:
        """The share of its predictions that are right; None if it was never predicted."""
        return share(self.right, self.predicted) if self.predicted else None


@dataclass(frozen=True)
class Slice:
    """The rows with one value of a column, or of a length."""

    column: str  # the kept column; "length" of the lengths of texts
    value: str  # its value, or a range of values
    rows: int
    labels: dict[str, int]  # how often each label was predicted, the most frequent first
    accuracy: Share | None  # the share of right answers; None without a gold column
    unit: str = ""  # what lengths are counted in, such as "words"; empty of kept columns


@dataclass(frozen=True)
class Reason:
    """Words, or a length of texts, that may decide answers by themselves."""

    label: str  # the label that it decides for
    words: tuple[str, ...]  # the word in lower case, or two that stand in a text together; none of a length
    texts: int  # how many texts have it; of lengths those longer than the median
    answered: float  # the share of them that are predicted to have the label
    usual: float  # that share of all texts
    score_share: float | None  # mean share of the scores of the texts so predicted; None of lengths
    turned: Share  # of texts with another prediction, those that get this one with it (of lengths: joined)
    changed: Share | None  # of texts with this prediction, those that lose it without it; None where not tried

    @property
    def name(self) -> str:
        """The words in quotation marks; of a length what it is, in brackets."""
        return " + ".join(f'"{word}"' for word in self.words) or LONGER

    @property
    def decides(self) -> bool:
        """Whether it turns most answers by itself: more than a single thing in a text should."""
        return self.turned.low >= DECISIVE


class WrongAnswer(NamedTuple):
    """A row that the model got wrong."""

    id: str  # its id; with the number of the row where several share it
    prediction: str  # the label that was predicted
    probability: float | None  # its probability, None if there is none
    gold: str  # the right labels
    result: "Attribution | None"  # its attribution; None of a picture or a sound
    notes: list[str]  # such as that the model does not know some of its words
    rows: int = 1  # how many rows have this text, with this label and this answer; the id is that of the first one
