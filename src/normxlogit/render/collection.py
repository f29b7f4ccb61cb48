"""A page for results of any kinds: texts, generated text, and answers with their sources."""

from collections.abc import Sequence
from typing import Any

from ..results.attribution import Attribution
from ..results.base import Result
from ..results.generation import GenerationAttribution
from ..results.sources import Sources
from . import generation, html, sources
from .overview import shortened

__all__ = ["page"]


def page(results: Sequence[Result], title: str | None = None) -> str:
    """Draw results on a page that needs nothing but a browser.

    Args:
        results: The results, in the order of the page.
        title: Heading of the page.
    """
    texts = [result for result in results if isinstance(result, Attribution)]
    if len(texts) == len(results):
        return html.page(texts, title)
    return html.items_page([_item(result) for result in results], title or "Results")


def _item(result: Any) -> html.Item:
    if isinstance(result, GenerationAttribution):
        return generation.item(result)
    if isinstance(result, Sources):
        return sources.item(result)
    text = " / ".join(t for t in (result.text, result.text_pair) if t is not None) or " ".join(result.tokens)
    return html.Item("text", shortened(text), html.figure_of(result, live=True))
