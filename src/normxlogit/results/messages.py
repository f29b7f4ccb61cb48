"""What an answer's sources are of: documents, or the messages of a conversation; and how verdicts call them."""

from typing import NamedTuple

from .storage.schema import Index


class SourceMessage(NamedTuple):
    """A message of a conversation, whose sentences or fields are sources of an answer.

    Attributes:
        kind: What it is: "system", "user", "assistant", "tool call", "tool result" or "reasoning".
        name: What it is called, such as "tool result search (2)"; names of its sources begin with it.
        tool: Name of the tool; of other messages empty.
        start: Its first character in the text.
        end: One past its last.
    """

    kind: str
    name: str
    tool: str
    start: Index
    end: Index


class Wording(NamedTuple):
    """How verdicts and captions call the sources of an answer.

    Attributes:
        sources: All sources together, behind "the".
        pronoun: "them" or "it", for the sources.
    """

    sources: str
    pronoun: str

    @property
    def unsupported(self) -> str:
        """What a sentence does that rests on none of the sources."""
        return f"does not rest on the {self.sources}"


DOCUMENTS = Wording("documents", "them")
CONVERSATION = Wording("conversation", "it")
