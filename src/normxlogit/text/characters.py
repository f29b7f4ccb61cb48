"""Characters and places of texts, on which the other files of this room stand."""

Span = tuple[int, int]
"""The first character of a part of a text, and one past its last."""

UNSPACED = (
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Myanmar, Khmer
    r"\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"  # kana
    r"\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)
"""Characters of scripts that are written without spaces between words, inside the brackets of a pattern."""


def moved(span: Span, by: int) -> Span:
    """Return a span so many characters further on, such as one of a part of a text in the whole of it."""
    start, end = span
    return start + by, end + by


def trimmed(text: str, start: int, end: int) -> Span:
    """Return a span without the white space at its ends, or unchanged if it holds nothing else.

    Args:
        text: The text.
        start: The first character of the span.
        end: One past its last.
    """
    body = text[start:end]
    if not body.strip():
        return start, end
    start += len(body) - len(body.lstrip())
    return start, start + len(body.strip())
