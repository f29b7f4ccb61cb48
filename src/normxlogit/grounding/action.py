"""What is said of a call of a tool: which source it rests on, and what it loses without the user's request."""

import math
from typing import NamedTuple

from ..results.storage.schema import Indices, Number
from ..results.units.characters import one_line
from ..results.verification import LEAST_LOSS, LONGEST, likelihood_text


class Action(NamedTuple):
    """A call of a tool, as the answer that is explained.

    Attributes:
        tool: The name of the tool.
        request: The places of the sources that are the user's last message; empty if the user says nothing.
        request_loss: The drop of the call's log-probability without that message, in nats; NaN if not measured.
    """

    tool: str
    request: Indices = ()
    request_loss: Number = math.nan

    def line(self, first: "FirstSource") -> str:
        """Return why the tool is called, as far as it was measured.

        Args:
            first: The source without which the call loses most of those that were left out; if none was, the one with
                the largest share.
        """
        tool, source = one_line(self.tool), first.described
        if first.nats is None:
            return f"{tool} rests most on {source}"
        without = f"the call is {likelihood_text(-first.nats)}"
        if first.nats <= LEAST_LOSS:
            nothing = f"no source that was left out makes {tool} much less likely"
            return f"{nothing}: without {source} {without}"
        line = f"{tool} is called because of {source}: without it {without}"
        return line if {*first.places} <= {*self.request} else f"{line}{self._without_request()}"

    def _without_request(self) -> str:
        """Return what the call loses without the user's request; nothing if that was not measured."""
        if math.isnan(self.request_loss):
            return ""
        without = f"without the user's request it is {likelihood_text(-self.request_loss)}"
        return f"; {'not because of the user: ' * (self.request_loss <= LEAST_LOSS)}{without}"


class FirstSource(NamedTuple):
    """The source that comes first of a call, or the message or paragraph that was left out as a whole.

    Attributes:
        name: What it is called.
        text: Its text; empty of several sources.
        share: Its share of the evidence; NaN if there is none.
        nats: What the call loses without it; None if not measured.
        places: Its places among the sources.
    """

    name: str
    text: str
    share: float
    nats: float | None
    places: tuple[int, ...]

    @property
    def described(self) -> str:
        """Its name, text and share."""
        share = 0.0 if math.isnan(self.share) else self.share
        quoted = f" {_quoted(self.text)}" if self.text else ""
        return f"{one_line(self.name)}{quoted} ({share:.0%} of the evidence)"


def _quoted(text: str) -> str:
    """Return a text in quotation marks on one line, a long one without its end."""
    text = one_line(text)
    return f'"{text}"' if len(text) <= LONGEST else f'"{text[: LONGEST - 3].rstrip()}..."'
