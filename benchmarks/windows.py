"""Conversations that are longer than the reader reads: do windows find the sources that reading all of it finds?"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from normxlogit import Explainer
from normxlogit.evaluation.report import markdown_table
from normxlogit.grounding import Citations
from normxlogit.grounding.citations.cited_answer import read_answered

from .long_conversations import conversation

FIRST = 5
"""How many of the first sources are looked for."""

ROUNDS = (3, 4)
"""Questions that are answered in a conversation before the last."""


class Windowed(NamedTuple):
    """A conversation read whole, and in windows.

    Attributes:
        part: Tokens that the reader may read, as a share of the conversation's.
        sources: Sources of the conversation.
        kept: Those that are read together.
        first_kept: How many of the `FIRST` sources with the highest scores of the whole are among them.
        same_first: Whether the same source has the highest score.
    """

    part: float
    sources: int
    kept: int
    first_kept: int
    same_first: bool


def compare(
    explainer: Explainer,
    parts: tuple[float, ...] = (0.9, 0.8, 0.7),
    on_progress: Callable[[str, int, int], None] | None = None,
) -> Iterator[Windowed]:
    """Explain the last answer of conversations with tools by all of them, and by a reader that reads a part.

    Args:
        explainer: With a causal language model that reads the conversations whole.
        parts: What the reader may read, as shares of a conversation's tokens.
        on_progress: Called with what is measured, how many of them are done, and of how many.

    Yields:
        Each conversation with each part.
    """
    tokenizer = explainer.tokenizer
    limit = tokenizer.model_max_length
    cases = [(rounds, asked) for rounds in ROUNDS for asked in range(rounds)]
    try:
        for number, (rounds, asked) in enumerate(cases):
            messages = conversation(rounds, asked)
            tokenizer.model_max_length = limit
            whole = _ranked(explainer.cite(messages=messages, verify=0))
            length = len(read_answered(explainer.language_model, None, messages=messages).completed.encoding)
            for part in parts:
                tokenizer.model_max_length = round(part * length)
                in_windows = _ranked(explainer.cite(messages=messages, verify=0))
                yield Windowed(
                    part,
                    sources=len(whole),
                    kept=len(in_windows),
                    first_kept=len(set(whole[:FIRST]) & set(in_windows)),
                    same_first=whole[0] == in_windows[0],
                )
            if on_progress is not None:
                on_progress("conversations", number + 1, len(cases))
    finally:
        tokenizer.model_max_length = limit


def as_table(measured: list[Windowed]) -> str:
    """Return the measurements in Markdown, a row for each part."""
    rows = []
    for part in dict.fromkeys(case.part for case in measured):
        cases = [case for case in measured if case.part == part]
        rows.append(
            [
                f"{part:.0%}",
                f"{len(cases)}",
                f"{sum(case.kept for case in cases) / sum(case.sources for case in cases):.0%}",
                f"{sum(case.first_kept for case in cases) / (FIRST * len(cases)):.2f}",
                f"{sum(case.same_first for case in cases) / len(cases):.2f}",
            ]
        )
    head = [
        "the model reads",
        "conversations",
        "sources read together",
        f"first {FIRST} among them",
        "same first source",
    ]
    return markdown_table(head, rows)


def _ranked(cited: Citations) -> list[str]:
    """Return the names of the sources, that with the highest score for the answer first."""
    scores = cited.attribution.scores[:, cited.attribution.units.sources].sum(0)
    return [cited.names[place] for place in scores.argsort()[::-1]]
