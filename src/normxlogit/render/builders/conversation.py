"""A conversation as a chat, folded to the messages, sentences and fields that the answer rests on."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import TypeVar

import numpy as np

from ...results.citations import Citations
from ..blocks import Chat, Piece, Turn
from ..layout import cut_pieces

MATTERS = 0.05
"""Share in a sentence of the answer from which a source is never folded."""

LONG = 400
"""Characters from which a message is folded to what matters in it."""

GAP = 120
"""Least characters that are folded."""

MANY = 8
"""Messages from which on those without a source that matters are folded, if there are several in a row."""

ROW = 3
"""Least messages in a row that are folded."""

T = TypeVar("T")
K = TypeVar("K")


def chat_of(cited: Citations, answer: Sequence[Piece]) -> Chat:
    """Return the conversation of an answer, message by message, and the answer.

    Args:
        cited: The answer, of a conversation.
        answer: Its sentences with their marks.
    """
    sentences = np.nan_to_num(cited.sentence_shares)  # (K, S)
    numbers: dict[int, tuple[int, ...]] = {source.source: (k,) for k, source in enumerate(cited.citations(), 1)}
    matters = {s for s in range(len(cited.sources)) if s in numbers or sentences[:, s].max() >= MATTERS}
    answer_shares, indices, names = np.nan_to_num(cited.shares), cited.message_indices, cited.names
    turns = []
    for index, message in enumerate(cited.messages):
        sources = [source for source, of in enumerate(indices) if of == index]
        pieces = [
            (
                *cited.spans[source],
                Piece(
                    "",
                    name=names[source],
                    number=f"{answer_shares[source]:.0%}",
                    source=source,
                    cited=numbers.get(source, ()),
                ),
            )
            for source in sources
        ]
        cut = cut_pieces(cited.text, message.start, message.end, pieces)
        runs = _folded(cut, matters) if message.end - message.start > LONG else [("", cut)]
        share = float(np.clip(answer_shares[sources].sum(), 0.0, 1.0)) if sources else None  # None of the question
        turns.append(Turn(message.role, message.name, share, runs))
    last = max((i for i, message in enumerate(cited.messages) if message.role == "user"), default=-1)
    important = {indices[source] for source in matters} | {last}
    return Chat(_folded_turns(turns, important), Turn("answer", "answer", None, [("", answer)]))


def _folded(cut: Sequence[Piece], matters: set[int]) -> list[tuple[str, Sequence[Piece]]]:
    """Return the pieces of a long message; what does not matter and is not its beginning is folded."""
    first = next((piece.source for piece in cut if piece.source is not None and len(piece.text) < LONG), None)
    is_open: list[bool] = []
    for piece in cut:  # what is between two sources goes with the first of them
        matters_here = piece.source in matters or piece.source == first
        is_open.append(matters_here if piece.source is not None else not is_open or is_open[-1])
    runs: list[tuple[str, Sequence[Piece]]] = []
    for matters_here, run in _runs(list(zip(cut, is_open, strict=True)), lambda pair: pair[1]):
        pieces = [piece for piece, _ in run]
        length = sum(len(piece.text) for piece in pieces)
        runs.append(("" if matters_here or length < GAP else f"{length:,} more characters", pieces))
    return [(summary, [p for _, pieces in run for p in pieces]) for summary, run in _runs(runs, lambda run: run[0])]


def _folded_turns(turns: Sequence[Turn], important: set[int]) -> list[tuple[str, Sequence[Turn]]]:
    """Return the messages; of a long conversation several in a row on which the answer does not rest are folded."""
    if len(turns) < MANY:
        return [("", turns)]
    runs: list[tuple[str, Sequence[Turn]]] = []
    for is_important, run in _runs(list(enumerate(turns)), lambda pair: pair[0] in important):
        part = [turn for _, turn in run]
        share = sum(turn.share or 0.0 for turn in part)
        folded = not is_important and len(part) >= ROW
        runs.append((f"{len(part)} messages with a share of {share:.0%}" if folded else "", part))
    return runs


def _runs(items: Iterable[T], key: Callable[[T], K]) -> Iterator[tuple[K, list[T]]]:
    """Yield items in a row that have one key, with the key."""
    for value, run in groupby(items, key):
        yield value, list(run)
