"""MkDocs hook: turn formulas into MathML, which browsers draw without a script."""

import html
import re
from typing import Any

from latex2mathml.converter import convert

_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_content(content: str, **_: Any) -> str:
    """Replace the formulas that pymdownx.arithmatex marked."""
    return _FORMULA.sub(
        lambda m: convert(html.unescape(m[3]).strip(), display="block" if m[2] == "[" else "inline"), content
    )
