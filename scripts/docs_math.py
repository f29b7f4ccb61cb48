"""MkDocs hook: turn formulas into MathML, which browsers draw without a script."""

import html
import re
from typing import Any

from latex2mathml.converter import convert

_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_content(content: str, **_: Any) -> str:
    """Replace the formulas that pymdownx.arithmatex marked."""
    return _FORMULA.sub(lambda m: _drawn(html.unescape(m[3]).strip(), block=m[2] == "["), content)


def _drawn(formula: str, *, block: bool) -> str:
    """Return a formula as MathML; one of its own line scrolls where it is wider than a phone.

    Raises:
        ValueError: If it has a command that would be shown as its name.
    """
    drawn = convert(formula, display="block" if block else "inline")
    if "\\" in drawn:
        raise ValueError(f"latex2mathml does not know a command of {formula}")
    return f'<div style="overflow-x:auto">{drawn}</div>' if block else drawn
