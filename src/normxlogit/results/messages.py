"""What an answer's sources are of: documents, or the messages of a conversation; and how verdicts call them."""

from typing import NamedTuple

from .storage.schema import Index


class MessageSpan(NamedTuple):
    """A message of a chat or of a conversation, as the template renders it in the prompt.

    Attributes:
        role: Role of its author; of a conversation what it is: also "tool call", "tool result" and "reasoning".
        start: Its first character in the text.
        end: One past its last.
        name: What it is called, such as "tool result search (2)"; names of its sources begin with it. Of a conversation
            whose sources are cited, like `tool`.
        tool: Name of the tool; of other messages empty.
    """

    role: str
    start: Index
    end: Index
    name: str = ""
    tool: str = ""


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
