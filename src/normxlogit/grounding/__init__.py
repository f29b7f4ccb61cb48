"""Grounding: which sentences of documents or of a conversation an answer rests on, and whether it does."""

from typing import TYPE_CHECKING

from ..extending import lazy_names

if TYPE_CHECKING:
    from .action import Action
    from .checkers import Checker, Pair
    from .documents.conversations import read_conversation
    from .documents.documents import read_documents
    from .documents.files import READERS
    from .facts import Facts, StatedWord
    from .result import Citations
    from .support import Comparison, Source, Support

__all__ = [
    "READERS",
    "Action",
    "Checker",
    "Citations",
    "Comparison",
    "Facts",
    "Pair",
    "Source",
    "StatedWord",
    "Support",
    "read_conversation",
    "read_documents",
]

__getattr__ = lazy_names(
    __name__,
    {
        "action": ("Action",),
        "checkers": ("Checker", "Pair"),
        "documents.conversations": ("read_conversation",),
        "documents.documents": ("read_documents",),
        "documents.files": ("READERS",),
        "facts": ("Facts", "StatedWord"),
        "result": ("Citations",),
        "support": ("Comparison", "Source", "Support"),
    },
)
