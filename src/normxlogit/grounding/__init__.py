"""Grounding: which sentences of documents or of a conversation an answer rests on, and whether it does."""

from typing import TYPE_CHECKING

from ..extending import lazy_names

if TYPE_CHECKING:
    from .documents.conversations import read_conversation
    from .documents.documents import READERS, read_documents
    from .result import Citations
    from .verdicts import AnswerWord, Source, Support

__all__ = ["READERS", "AnswerWord", "Citations", "Source", "Support", "read_conversation", "read_documents"]

__getattr__ = lazy_names(
    __name__,
    {
        "documents.conversations": ("read_conversation",),
        "documents.documents": ("READERS", "read_documents"),
        "result": ("Citations",),
        "verdicts": ("AnswerWord", "Source", "Support"),
    },
)
