"""The rows of a summary's tables."""

from dataclasses import dataclass
from typing import NamedTuple

Z = 1.96
"""Standard errors of a 95% interval."""

NAMES = {
    "words": ("word", "texts"),
    "tokens": ("token", "texts"),
    "patches": ("patch", "pictures"),
    "frames": ("frame", "sounds"),
}
"""The singular name of a unit, and the name of rows."""

SIGNALS = {"image": "patches", "audio": "frames"}
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


class Effect(NamedTuple):
    """The effect of deleting a word from texts.

    Attributes:
        places: How often it was deleted.
        mean: The mean of the explained logit (or value) with it minus that without it.
        low: Lower end of the 95% interval of the mean.
        high: Upper end.
        changed: Share of the deletions that change the prediction; None if the answer is not one label.
    """

    places: int
    mean: float
    low: float
    high: float
    changed: float | None


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
        total: Its scores together.
        against: Share of its occurrences with a negative score, None for methods without a sign.
        examples: Ids of inputs where it scores highest, or lowest where it speaks against the label; with the number of
            the row where several share an id.
        effect: The effect of deleting it; None if not measured.
    """

    label: str
    text: str
    count: int
    mean: float
    low: float
    high: float
    total: float
    against: float | None
    examples: list[str]
    effect: Effect | None = None


class WrongAnswer(NamedTuple):
    """A row that the model got wrong.

    Attributes:
        id: Its id; with the number of the row where several share it.
        prediction: The label that was predicted.
        probability: Its probability, None if there is none.
        gold: The right labels.
        pieces: The texts of the row, each cut into pieces with their scores; None if a piece has none. Empty where
            it is a picture or a sound.
    """

    id: str
    prediction: str
    probability: float | None
    gold: str
    pieces: list[list[tuple[str, float | None]]]
