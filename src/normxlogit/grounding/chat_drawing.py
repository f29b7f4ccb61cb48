"""The chat block of a conversation, folded to the parts that the answer rests on."""

from collections.abc import Callable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TypeVar

import numpy as np

from ..render.blocks import Chat, Piece, Turn
from ..render.layout import cut
from .result import Citations

MATTERS = 0.05
"""A source with this share of some sentence of the answer is never folded."""

LONG, GAP = 400, 120
"""Messages of more than LONG characters are folded, in gaps of at least GAP characters."""

MANY, ROW = 8, 3
"""In conversations of at least MANY messages, at least ROW consecutive ones that do not matter are folded."""

T = TypeVar("T")


def chat_of(cited: Citations, answer: Sequence[Piece]) -> Chat:
    """Return the conversation of an answer, message by message, and the answer with its marks."""
    sentences = np.nan_to_num(cited.sentence_shares)  # (K, S)
    numbers: dict[int, tuple[int, ...]] = {source.source: (k,) for k, source in enumerate(cited.citations(), 1)}
    matters = {s for s in range(len(cited.sources)) if s in numbers or sentences[:, s].max() >= MATTERS}
    shares, indices = np.nan_to_num(cited.shares), cited.message_indices  # (S,)
    sources = [
        (*span, Piece("", name=name, number=f"{shares[s]:.0%}", source=s, cited=numbers.get(s, ())))
        for s, (span, name) in enumerate(zip(cited.spans, cited.names, strict=True))
    ]
    turns = []
    for index, message in enumerate(cited.messages):
        inside = [s for s, of in enumerate(indices) if of == index]
        if message.role in ("picture", "sound"):  # whose placeholder says nothing
            pieces = [sources[s][-1]._replace(text=f"[{message.role}]") for s in inside]
        else:
            pieces = cut(cited.text, [sources[s] for s in inside], message.start, message.end)
        share = float(np.clip(shares[inside].sum(), 0.0, 1.0)) if inside else None  # None of the question
        groups = _folded(pieces, matters) if message.end - message.start > LONG else [("", pieces)]
        turns.append(Turn(message.role, message.name, share, groups))
    last = max((i for i, message in enumerate(cited.messages) if message.role == "user"), default=-1)
    important = {indices[source] for source in matters} | {last}
    return Chat(_folded_turns(turns, important), Turn("answer", "answer", None, [("", answer)]))


def _folded(pieces: Sequence[Piece], matters: set[int]) -> list[tuple[str, list[Piece]]]:
    """Return the pieces of a long message in groups; all but its beginning and the sources that matter is folded."""
    first = next((piece.source for piece in pieces if piece.source is not None and len(piece.text) < LONG), None)
    is_open = [True]
    for piece in pieces:  # the text between two sources goes with the first one
        is_open.append(is_open[-1] if piece.source is None else piece.source in matters or piece.source == first)

    def summary(group: list[Piece]) -> str:
        length = sum(len(piece.text) for piece in group)
        return f"{length:,} more characters" if length >= GAP else ""

    return _group_folded(pieces, is_open[1:], summary)


def _folded_turns(turns: Sequence[Turn], important: set[int]) -> list[tuple[str, list[Turn]]]:
    """Return the messages in groups; in a long conversation, consecutive messages that do not matter are folded."""

    def summary(group: list[Turn]) -> str:
        share = sum(turn.share or 0.0 for turn in group)
        return f"{len(group)} messages with a share of {share:.0%}" if len(turns) >= MANY and len(group) >= ROW else ""

    return _group_folded(turns, [i in important for i in range(len(turns))], summary)


def _group_folded(
    items: Sequence[T], is_open: Sequence[bool], summary: Callable[[list[T]], str]
) -> list[tuple[str, list[T]]]:
    """Group consecutive items that are open or folded.

    Args:
        items: The items.
        is_open: Whether each stays open.
        summary: Returns the line that stands for folded items; empty if they should stay open.

    Returns:
        The line of each group, empty for an open one, and its items.
    """
    groups: list[tuple[str, list[T]]] = []
    for is_shown, pairs in groupby(zip(is_open, items, strict=True), itemgetter(0)):
        group = [item for _, item in pairs]
        line = "" if is_shown else summary(group)
        if groups and groups[-1][0] == line == "":
            groups[-1][1].extend(group)
        else:
            groups.append((line, group))
    return groups
