"""Corpora: attributions of any number of texts as Parquet shards, and summaries over all of them."""

from typing import TYPE_CHECKING

from ..extending import lazy_names

if TYPE_CHECKING:
    from .jobs import Answers, Completions, Conversations, Predictions
    from .run import attribute
    from .summaries.summary import summarize

__all__ = ["attribute", "Predictions", "Completions", "Answers", "Conversations", "summarize"]

__getattr__ = lazy_names(
    __name__,
    {
        "jobs": ("Answers", "Completions", "Conversations", "Predictions"),
        "run": ("attribute",),
        "summaries.summary": ("summarize",),
    },
)
