"""Results as a table of one row each: the text, the answer, and the words that it rests on."""

from collections.abc import Iterable, Mapping
from typing import Any

from .schema import FloatArray

TOP = 3
"""Words in a cell."""


def top_words(scored: Iterable[tuple[str, float]]) -> dict[str, str]:
    """Return the words with the highest positive scores and those with the lowest negative ones, with their scores."""
    words = [(text, float(score)) for text, score in scored if any(c.isalnum() for c in text)]
    most = sorted((word for word in words if word[1] > 0), key=lambda word: -word[1])[:TOP]
    least = sorted((word for word in words if word[1] < 0), key=lambda word: word[1])[:TOP]
    return {
        "top_for": ", ".join(f"{text} {score:+.3g}" for text, score in most),
        "top_against": ", ".join(f"{text} {score:+.3g}" for text, score in least),
    }


def text_row(
    text: str | None,
    prediction: str,
    scored: Iterable[tuple[str, float | FloatArray]],
    notes: Iterable[str],
    *,
    truncated: bool = False,
    **others: Any,
) -> Mapping[str, Any]:
    """Return one row."""
    words = top_words((word, float(score)) for word, score in scored)
    about = {"truncated": truncated, "notes": "; ".join(notes)}
    return {"text": text, "prediction": prediction, **others, **words, **about}
