"""Corpora: attributions of any number of texts as Parquet shards, and summaries over all of them."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .jobs import Answers, Completions, Conversations, Predictions
    from .run import attribute
    from .summaries.summary import summarize

__all__ = ["attribute", "Predictions", "Completions", "Answers", "Conversations", "summarize"]

_HOMES = {"attribute": "run", "summarize": "summaries.summary"}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, because the command line reads this file at its start."""
    from ..extending import named

    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return named(f"{__name__}.{_HOMES.get(name, 'jobs')}:{name}")
