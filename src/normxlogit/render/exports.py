"""Results as pages, in notebooks and as text for terminals."""

from typing import Any

from ..results.base import Record
from ..results.collection import Attributions
from .cards import drawings, results_page
from .html import fragment
from .terminal import text_of_blocks

FRAGMENTS, PRINTED = 20, 10
"""Most results that a notebook draws, and that `print` shows."""


def html(results: Record | Attributions[Any], *, title: str | None = None) -> str:
    """Return a page of a result, or of several."""
    return results_page(_collected(results), title=title)


def notebook(results: Record | Attributions[Any]) -> str:
    """Return the HTML that a notebook shows of a result, or of the first of several."""
    several = _collected(results)
    more = len(several) - FRAGMENTS
    drawn = [fragment(blocks, style=not index) for index, blocks in enumerate(drawings(several[:FRAGMENTS]))]
    return "".join(drawn) + (f"<p>and {more} more; to_html(path) writes a page of all</p>" if more > 0 else "")


def terminal(results: Record | Attributions[Any]) -> str:
    """Return the text that `print` shows of a result, or of the first of several."""
    several = _collected(results)
    more = len(several) - PRINTED
    left = [f"and {more} more: slice them, or to_html(path) writes a page of all"] if more > 0 else []
    return "\n\n".join([*map(text_of_blocks, drawings(several[:PRINTED])), *left]) or "no results"


def _collected(results: Record | Attributions[Any]) -> Attributions[Any]:
    return results if isinstance(results, Attributions) else Attributions([results])
