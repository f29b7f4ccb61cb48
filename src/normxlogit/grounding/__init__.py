"""Grounding: which sentences of documents or of a conversation an answer rests on, and whether it does."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .documents.conversations import read_conversation
    from .documents.documents import READERS, documents_by_name
    from .result import AnswerWord, Citations, Source, Support

__all__ = ["READERS", "AnswerWord", "Citations", "Source", "Support", "documents_by_name", "read_conversation"]

_HOMES = {
    "READERS": "documents.documents",
    "documents_by_name": "documents.documents",
    "read_conversation": "documents.conversations",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, because the command line reads this file at its start."""
    from importlib import import_module

    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES.get(name, 'result')}", __name__), name)
