"""What is said of a call of a tool: which source it rests on, and what it loses without the user's request."""

import math
from typing import NamedTuple

from ..results.storage.schema import Indices, Number
from ..results.units.characters import one_line
from ..results.verification import LEAST_LOSS, LONGEST, likelihood_text
from .support import Source


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

    def line(self, first: Source) -> str:
        """Return why the tool is called, as far as it was measured.

        Args:
            first: The source without which the call loses most of those that were left out; if none was, the one with
                the largest share.
        """
        tool, share = one_line(self.tool), 0.0 if math.isnan(first.share) else first.share
        source = f"{one_line(first.name)} {_quoted(first.text)} ({share:.0%} of the evidence)"
        if first.nats is None:
            return f"{tool} rests most on {source}"
        if first.nats <= LEAST_LOSS:
            nothing = f"no source that was left out makes {tool} much less likely"
            return f"{nothing}: without {source} the call is {likelihood_text(-first.nats)}"
        without = f"without it the call is {likelihood_text(-first.nats)}"
        return f"{tool} is called because of {source}: {without}{self._beside_request(first)}"

    def _beside_request(self, first: Source) -> str:
        """Return what the call loses without the user's request, where another source is the first one."""
        if first.source in self.request or math.isnan(self.request_loss):
            return ""
        without = f"without the user's request it is {likelihood_text(-self.request_loss)}"
        return f"; {'not because of the user: ' * (self.request_loss <= LEAST_LOSS)}{without}"


def _quoted(text: str) -> str:
    """Return a text in quotation marks on one line, a long one without its end."""
    text = one_line(text)
    return f'"{text}"' if len(text) <= LONGEST else f'"{text[: LONGEST - 3].rstrip()}..."'
