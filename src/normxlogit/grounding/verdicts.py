"""What a reader of documents makes of a sentence, and the verdict that follows.

D is the log-probability of the sentence's tokens with the documents, N without them. The uncertainty coefficient
1 - D / N tells whether the sentence comes from the documents; the gains of its one-word edits tell whether they rather
say something else. A logistic regression for each of the two questions gives a probability, and thresholds give the
verdict; both are in `verdicts.json`, which `python -m benchmarks verdicts` fits.
"""

import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Literal, NamedTuple

import numpy as np

from ..results.storage.schema import Index, Number

EditKind = Literal["replaced", "inserted", "left out", "exchanged"]

Judgement = Literal["rests", "contradicts", "not in the sources", "cannot tell", "not tested"]
"""How a sentence of an answer relates to its sources."""

COVERED = ("coefficient",)
"""The features for whether the sources say the sentence at all."""

AGREED = ("best word", "best word due to the sources", "best edit", "best edit due to the sources")
"""The features for whether the sources rather say something else."""

WITH_WORD = "coefficient with another word"
"""The feature for whether the sources say a sentence after the best clear edit that brings a word."""

NO_GAIN = -8.0
"""The gain where there is no edit, in nats."""

LARGEST_GAIN = 25.0
"""Gains are clipped to this magnitude, in nats."""

CLEAR = 1.0
"""A word is marked if an edit of it gains this many nats, also beyond what it gains without the sources."""


class WordReading(NamedTuple):
    """A word of an answer.

    Attributes:
        start: Its first character in the text.
        end: One past its last.
        nats: Log-probability of its tokens with the sources.
        nats_without: The same without them; NaN if nothing of the prompt is left.
    """

    start: Index
    end: Index
    nats: Number
    nats_without: Number


class WordEdit(NamedTuple):
    """A sentence with one of its words edited.

    Attributes:
        kind: What was done.
        start: The first character of the text that the edit replaces.
        end: One past the last; where words are inserted the same.
        text: What stands there instead.
        gain: The log-probability of the edited sentence less that of the sentence, with the sources, in nats.
        gain_without: The same without the sources; NaN if not measured.
    """

    kind: EditKind
    start: Index
    end: Index
    text: str
    gain: Number = math.nan
    gain_without: Number = math.nan

    @property
    def due_to_sources(self) -> float:
        """The gain, or what of it is not gained without the sources, whichever is less."""
        return self.gain if math.isnan(self.gain_without) else min(self.gain, self.gain - self.gain_without)


class Verdict(NamedTuple):
    """The verdict on a sentence.

    Attributes:
        covered: The probability that the sources say it, rather than that it is an invention; NaN if unknown.
        agreed: The probability that the sources do not rather say something else.
        judgement: What follows.
    """

    covered: Number
    agreed: Number
    judgement: Judgement


def verdict_of(features: Mapping[str, float], fitted: Mapping[str, Any] | None = None) -> Verdict:
    """Return the verdict that follows from the features of a sentence.

    Args:
        features: The features, by name.
        fitted: Coefficients and thresholds; None for those of the package.
    """
    fitted = fitted or _fitted()
    covered, agreed = (_probability(fitted[question], features) for question in ("covered", "agreed"))
    thresholds = fitted["thresholds"]
    judgement: Judgement = "cannot tell"
    if covered < thresholds["not in the sources"]:
        with_word = _probability(fitted["covered"], {**features, COVERED[0]: features[WITH_WORD]})
        judgement = "contradicts" if with_word >= thresholds["not in the sources"] else "not in the sources"
    elif agreed < thresholds["contradicts"]:
        judgement = "contradicts"
    elif covered >= thresholds["rests"]["covered"] and agreed >= thresholds["rests"]["agreed"]:
        judgement = "rests"
    return Verdict(covered, agreed, judgement)


class Reading(NamedTuple):
    """What the reader makes of a sentence.

    Attributes:
        words: Its words.
        edits: The edits with the largest gain, the largest first.
    """

    words: tuple[WordReading, ...]
    edits: tuple[WordEdit, ...]

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
        """The features of the verdict, by name."""
        new_words = [edit for edit in self.edits if edit.kind != "left out"]
        coefficient = _coefficient(self.nats, self.nats_without)
        with_word = [self._coefficient_with(edit) for edit in self._clear_words]

        def best(values: Sequence[float]) -> float:
            return min(max(values, default=NO_GAIN), LARGEST_GAIN)

        return {
            "coefficient": coefficient,
            "best word": best([edit.gain for edit in new_words]),
            "best word due to the sources": best([edit.due_to_sources for edit in new_words]),
            "best edit": best([edit.gain for edit in self.edits]),
            "best edit due to the sources": best([edit.due_to_sources for edit in self.edits]),
            WITH_WORD: max(with_word, default=coefficient),
        }

    @property
    def verdict(self) -> Verdict:
        """The verdict with its probabilities."""
        return verdict_of(self.features)

    @property
    def judgement(self) -> Judgement:
        """The verdict alone."""
        return self.verdict.judgement

    @property
    def rather(self) -> WordEdit | None:
        """The edit that says best what the sources rather say; None without edits."""
        edits: Sequence[WordEdit] = self.edits
        least = _fitted()["thresholds"]["not in the sources"]
        if self.verdict.covered < least:  # a word with which they do say the sentence
            fitted = _fitted()["covered"]
            covering = [
                edit
                for edit in self._clear_words
                if _probability(fitted, {COVERED[0]: self._coefficient_with(edit)}) >= least
            ]
            edits = covering or edits
        return max(edits, key=lambda edit: edit.due_to_sources, default=None)

    @property
    def _clear_words(self) -> list[WordEdit]:
        """The edits that bring a word and clearly gain, whose loss without the sources is known."""
        known = [edit for edit in self.edits if edit.kind != "left out" and not math.isnan(edit.gain_without)]
        return [edit for edit in known if edit.due_to_sources >= CLEAR]

    def _coefficient_with(self, edit: WordEdit) -> float:
        return _coefficient(self.nats + edit.gain, self.nats_without + edit.gain_without)

    def edit_of(self, word: WordReading) -> WordEdit | None:
        """Return the best edit of one word alone; None if none is clearly gained from the sources."""
        edits = [edit for edit in self.edits if edit.due_to_sources >= CLEAR and self._edits_only(edit, word)]
        return max(edits, key=lambda edit: edit.due_to_sources, default=None)

    def _edits_only(self, edit: WordEdit, word: WordReading) -> bool:
        if edit.kind == "inserted":
            return word.start <= edit.start < word.end
        touched = [other for other in self.words if other.start < edit.end and edit.start < other.end]
        return word in touched and (len(touched) == 1 or edit.kind == "exchanged")

    def unsaid(self, word: WordReading) -> bool:
        """Return whether the sources do not say a word: they make it no likelier, or rather say another."""
        if self.judgement == "rests":
            return False
        rather = self.rather if self.judgement == "contradicts" else None
        if rather and word.start < max(rather.end, rather.start + 1) and rather.start < word.end:
            return True
        no_likelier = self.judgement == "not in the sources" and not word.nats > word.nats_without + CLEAR
        return no_likelier or self.edit_of(word) is not None


@cache
def _fitted() -> dict[str, Any]:
    """Return the fitted coefficients and thresholds."""
    state: dict[str, Any] = json.loads(files("normxlogit.grounding").joinpath("verdicts.json").read_text("utf-8"))
    return state


def _coefficient(nats: float, nats_without: float) -> float:
    """Return the uncertainty coefficient 1 - D / N of a sentence, at least -1."""
    return max(1 - nats / nats_without, -1.0) if nats_without else math.nan


def _probability(fitted: Mapping[str, Any], features: Mapping[str, float]) -> float:
    """Return the probability of a fitted regression."""
    values = np.array([features[name] for name in fitted["weights"]])
    logit = fitted["intercept"] + float(values @ np.array(list(fitted["weights"].values())))
    return 1 / (1 + math.exp(-min(max(logit, -500.0), 500.0))) if math.isfinite(logit) else math.nan
