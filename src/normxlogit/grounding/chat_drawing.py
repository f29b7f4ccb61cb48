"""The chat block of a conversation, with the long messages folded that the answer does not rest on."""

from collections.abc import Sequence

import numpy as np

from ..render.blocks import Chat, Piece, Turn
from ..render.layout import cut
from .result import Citations

MATTERS = 0.05
"""A message with this share of some sentence of the answer is never folded."""

LONG = 400
"""Messages of more characters are folded otherwise."""


def chat_of(cited: Citations, answer: Sequence[Piece]) -> Chat:
    """Return the conversation of an answer, message by message, and the answer with its marks."""
    sentences = np.nan_to_num(cited.sentence_shares)  # (K, S)
    numbers: dict[int, tuple[int, ...]] = {source.source: (k,) for k, source in enumerate(cited.citations(), 1)}
    shares, indices = np.nan_to_num(cited.shares), cited.message_indices  # (S,)
    sources = [
        (*span, Piece("", name=name, number=f"{shares[s]:.0%}", source=s, cited=numbers.get(s, ())))
        for s, (span, name) in enumerate(zip(cited.spans, cited.names, strict=True))
    ]
    question = max((i for i, message in enumerate(cited.messages) if message.role == "user"), default=-1)
    turns = []
    for index, message in enumerate(cited.messages):
        inside = [s for s, of in enumerate(indices) if of == index]
        if message.role in ("picture", "sound"):  # whose placeholder says nothing
            pieces = [sources[s][-1]._replace(text=f"[{message.role}]") for s in inside]
        else:
            pieces = cut(cited.text, [sources[s] for s in inside], message.start, message.end)
        share = float(np.clip(shares[inside].sum(), 0.0, 1.0)) if inside else None  # None of the question
        length = message.end - message.start
        matters = index == question or any(s in numbers or sentences[:, s].max() >= MATTERS for s in inside)
        folded = f"{length:,} characters" if length > LONG and not matters else ""
        turns.append(Turn(message.role, message.name, share, pieces, folded))
    return Chat(turns, Turn("answer", "answer", None, answer))
