"""Results as pages, in notebooks and as text for terminals."""

from typing import Any

from ..results.base import Record
from ..results.collection import Attributions
from .cards import drawings, results_page
from .html import fragment
from .terminal import text_of_blocks

MOST_DRAWN = 20
"""Most results that a notebook draws."""

MOST_PRINTED = 10
"""Most results that `print` shows."""


def html(results: Record | Attributions[Any], *, title: str | None = None) -> str:
    """Return a page of a result, or of several.

    Args:
        results: The result, or the results.
        title: The title of the page; None for what the results are.
    """
    return results_page(_collected(results), title=title)


def notebook(results: Record | Attributions[Any]) -> str:
    """Return the HTML that a notebook shows of a result, or of the first of several."""
    several = _collected(results)
    more = len(several) - MOST_DRAWN
    # The style sheet of the first drawing, whose index is 0, is that of all.
    drawn = [fragment(blocks, style=not index) for index, blocks in enumerate(drawings(several[:MOST_DRAWN]))]
    return "".join(drawn) + (f"<p>and {more} more; to_html(path) writes a page of all</p>" if more > 0 else "")


def terminal(results: Record | Attributions[Any]) -> str:
    """Return the text that `print` shows of a result, or of the first of several."""
    several = _collected(results)
    more = len(several) - MOST_PRINTED
    left = [f"and {more} more: slice them, or to_html(path) writes a page of all"] if more > 0 else []
    return "\n\n".join([*map(text_of_blocks, drawings(several[:MOST_PRINTED])), *left]) or "no results"


def _collected(results: Record | Attributions[Any]) -> Attributions[Any]:
    return results if isinstance(results, Attributions) else Attributions([results])
