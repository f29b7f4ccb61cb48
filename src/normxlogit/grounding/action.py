"""What is said of a call of a tool: which source it rests on, and what it loses without the user's request."""

import math
from typing import NamedTuple

from ..results.storage.schema import Indices, Number, Strings
from ..results.units.characters import one_line, visible
from ..results.verification import LEAST_LOSS, LONGEST, likelihood_text
from .support import Effect

BEGINNING = "a call"
"""The name of what stands before the tool's name in a call: that a tool is called at all."""

LEAST_SHOWN = 0.01
"""Smaller probabilities, and ones this near to 1, are not shown as numbers."""


class Action(NamedTuple):
    """A call of a tool, as the answer that is explained.

    Attributes:
        tool: The name of the tool.
        request: The places of the sources that are the user's last message; empty if the user says nothing.
        request_loss: The drop of what is measured without that message, in nats; NaN if not measured.
        other: The answer that the call is explained against; empty for none.
        tokens: The first token of the call that differs from the other answer's, and the other answer's; empty without
            another answer.
        odds: How much likelier this token is than the other answer's, in nats; NaN without another answer.
        own_words: Of a call that rests most on the assistant's own words before it: the source without which these are
            least likely, and the drop of their log-probability. None of another call, or if not measured.

    What is measured is the log-probability of the call, or `odds` where it is explained against another answer.
    """

    tool: str
    request: Indices = ()
    request_loss: Number = math.nan
    other: str = ""
    tokens: Strings = ()
    odds: Number = math.nan
    own_words: Effect | None = None

    def line(self, first: "FirstSource", beginning: "Beginning | None" = None) -> str:
        """Return why the tool is called, as far as it was measured.

        Args:
            first: The source without which the call loses most of those that were left out; if none was, the one with
                the largest share.
            beginning: How likely it is that a tool is called at all, if that was measured.
        """
        line = self._of_call(first) if math.isnan(self.odds) else self._of_difference(first)
        if self.own_words is not None:
            without = f"{likelihood_text(-self.own_words.nats)} without {one_line(self.own_words.name)}"
            line = f"{line}; these words of its own are {without}"
        return line if beginning is None else f"{line}; {beginning.described}"

    def _of_call(self, first: "FirstSource") -> str:
        """Return what the call rests on."""
        call, source = f"the call of {one_line(self.tool)}", first.described
        if first.nats is None:  # nothing was left out
            return f"{call} rests most on {source}"
        without = likelihood_text(-first.nats)  # what is lost is positive, and makes the call less likely
        if first.nats <= LEAST_LOSS:
            return f"{call} loses little without any source that was left out: without {source} it is {without}"
        if first.is_first_of_each:
            line = f"{one_line(self.tool)} is called because of {source}: without it {without}"
        else:
            line = f"{call} loses most without {source}: then {without}"
        if not self._has_request_beside(first):
            return line
        return f"{line}; without the user's request {likelihood_text(-self.request_loss)}"

    def _of_difference(self, first: "FirstSource") -> str:
        """Return what the call rests on rather than the other answer."""
        tokens = " and ".join(quoted(visible(token)) for token in self.tokens)
        where = f"where they part ({tokens})"
        line = f"{one_line(self.tool)}, not {one_line(self.other)}: {where} it is {likelihood_text(self.odds)}"
        if first.nats is None:  # nothing was left out
            return f"{line}; that rests most on {first.described}"
        odds_without = self.odds - first.nats  # against another answer, what a source takes away are odds
        without = likelihood_text(odds_without)
        if first.nats > LEAST_LOSS and odds_without <= 0 < self.odds:  # the other answer would be the likelier one
            line = f"{line}, because of {first.described}: without it {without}"
        elif first.nats > LEAST_LOSS:
            line = f"{line}; it loses most without {first.described}: then {without}"
        else:
            line = f"{line}; no source that was left out changes that much: without {first.described} {without}"
        if not self._has_request_beside(first):
            return line
        return f"{line}; without the user's request {likelihood_text(self.odds - self.request_loss)}"

    def _has_request_beside(self, first: "FirstSource") -> bool:
        """Return whether the user's request was measured, and is not the first source itself."""
        return not math.isnan(self.request_loss) and not {*first.places} <= {*self.request}


class Beginning(NamedTuple):
    """How likely it is that a tool is called at all, whichever it is: what chat templates write before a tool's name.

    Attributes:
        probability: The probability of this.
        source: The name of the source without which it is least likely, of those that were left out.
        without: The probability without that source.
    """

    probability: float
    source: str
    without: float

    @property
    def described(self) -> str:
        """The probabilities as a text."""
        without = f"{_percentage(self.without)} without {one_line(self.source)}"
        return f"that any tool is called has a probability of {_percentage(self.probability)}, {without}"


def _percentage(probability: float) -> str:
    """Return a probability in percent, without a false 0% or 100%."""
    if probability < LEAST_SHOWN:
        return f"under {LEAST_SHOWN:.0%}"
    return f"over {1 - LEAST_SHOWN:.0%}" if probability > 1 - LEAST_SHOWN else f"{probability:.0%}"


class FirstSource(NamedTuple):
    """The source that comes first of a call, or the message or paragraph that was left out as a whole.

    Attributes:
        name: What it is called.
        text: Its text; empty of several sources.
        share: Its share of the evidence; NaN if there is none.
        nats: What the call loses without it; None if not measured.
        places: Its places among the sources.
        is_first_of_each: Whether no part of the call, its name or an argument, loses more without another one.
    """

    name: str
    text: str
    share: float
    nats: float | None
    places: tuple[int, ...]
    is_first_of_each: bool = False

    @property
    def described(self) -> str:
        """Its name, text and share."""
        share = 0.0 if math.isnan(self.share) else self.share  # NaN where nothing speaks for the call
        text = f" {quoted(self.text)}" if self.text else ""
        return f"{one_line(self.name)}{text} ({share:.0%} of the evidence)"


def quoted(text: str) -> str:
    """Return a text in quotation marks on one line, a long one without its end."""
    text = one_line(text)
    # The three dots count among the characters.
    return f'"{text}"' if len(text) <= LONGEST else f'"{text[: LONGEST - 3].rstrip()}..."'
