"""Scores of pictures and sounds, from those of the tokens that stand for them or of the parts that they enter by."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np
import torch

from ..errors import MethodError, UnsupportedModelError
from ..inputs.encoding import Encoding
from ..inputs.media.sounds import moments_of
from ..methods import FrozenGradient, Method, Scores
from ..results.storage.schema import FloatArray
from ..results.units.media import Medium
from ..results.units.units import UnitKind, Units


class Placed(NamedTuple):
    """A picture or a sound of a prompt with its scores.

    Attributes:
        medium: Where its parts are; its `first` is that of the units once they are appended.
        scores: float32, (G, L, parts).
        sequence: Which of two inputs it is.
    """

    medium: Medium
    scores: FloatArray
    sequence: int = 0


def check_reads_media(method: Method) -> None:
    """Refuse a method that scores the words of a prompt and not its pictures.

    Raises:
        MethodError: If this is one.
    """
    if not (isinstance(method, FrozenGradient) or method.info.tokenwise):
        raise MethodError(
            f"{method.info.name} scores words alone, and the prompt holds a picture or a sound: frozen-gradient scores "
            "both, and so do normxlogit, logat and input-norm by the tokens that stand for it"
        )


def with_media(context: Encoding, scores: Scores) -> tuple[Scores, list[Placed]]:
    """Return scores of words alone, and those of the pictures and sounds of their prompt.

    What parts of padding contribute, which are nowhere in a picture, is added to the bias: the sum stays. So is what
    attention sinks contribute if all of them are frames of a sound.

    Args:
        context: What was read.
        scores: Of one text on the host, (G, L, T); where an encoder reads a sound, its frames come before the tokens.

    Raises:
        UnsupportedModelError: If the places of a picture are not known.
    """
    media, signal = context.media, context.signal
    if signal is not None and signal.sound is not None:
        scores, frames = _frames_as_parts(scores, len(context)), scores.values.shape[-1] - len(context)
        end = signal.times[-1][1] if signal.times else 0.0  # the model's rate may not be known
        media = (moments_of(signal.sound, frames, end or signal.sound.seconds or float(frames)),)
    elif signal is not None and signal.picture is not None:
        media = (signal.picture,)
    if not media:
        return scores, []
    values = scores.values.clone()
    nowhere = np.zeros(values.shape[:2]) if scores.parts is None else scores.parts.sum(-1).double().numpy()  # (G, L)
    placed_media = []
    for medium in media:
        tokens = list(medium.tokens)
        spread = medium.by_token if scores.parts is None else medium.by_part
        if spread is None:
            hint = "; read_at=0 reads its patches" if scores.parts is None else ""
            raise UnsupportedModelError(
                f"where in {medium.name} the model reads what cannot be told: its processor returns other numbers for "
                f"it in a prompt than alone, or parts that form no grid{hint}"
            )
        part_scores = (values[..., tokens] if scores.parts is None else scores.parts).numpy()  # (G, L, N)
        placed = spread(part_scores)  # (G, L, ...)
        flat = placed.reshape(*placed.shape[:2], -1)  # (G, L, parts)
        nowhere -= flat.sum(-1, dtype=np.float64)
        if scores.parts is None:
            nowhere += part_scores.sum(-1, dtype=np.float64)
        values[..., tokens] = 0
        kind: Literal["picture", "sound"] = "picture" if placed.ndim == 4 else "sound"
        details = {"places": spread.where, "tokens": medium.tokens, **medium.details}
        placed_media.append(Placed(Medium(kind=kind, name=medium.name, first=0, **details), flat))
    bias = None if scores.bias is None else scores.bias + torch.from_numpy(nowhere).to(scores.bias)
    return replace(scores, values=values, bias=bias, parts=None), placed_media


def appended(
    units: Units, scores: FloatArray, placed: Sequence[Placed], *, layers: bool
) -> tuple[Units, FloatArray, tuple[Medium, ...]]:
    """Return units and scores with the parts of pictures and sounds behind those of the text.

    Args:
        units: The T units of the text.
        scores: Theirs, (G, T), with layers (G, L, T).
        placed: The pictures and sounds.
        layers: Whether there is an axis of layers.
    """
    media = []
    for medium, part_scores, sequence in placed:
        first = len(units)
        media.append(replace(medium, first=first))
        kind: UnitKind = "patch" if medium.kind == "picture" else "moment"
        names, spans, ids = medium.part_names(), units.spans is not None, bool(units.ids)
        units += Units.of_parts(kind, names, sequence=sequence, spans=spans, ids=ids)
        scores = np.concatenate([scores, part_scores if layers else part_scores[:, 0]], -1)
    return units, scores, tuple(media)


def _frames_as_parts(scores: Scores, tokens: int) -> Scores:
    """Return scores, (G, L, S + T), whose first S are those of parts and the last T of tokens."""
    frames = scores.values.shape[-1] - tokens  # S
    sinks = None if scores.sinks is None else scores.sinks[frames:]
    scores = replace(scores, values=scores.values[..., frames:], parts=scores.values[..., :frames], sinks=sinks)
    if scores.bias is None or scores.sink is None or (sinks is not None and bool(sinks.any())):
        return scores
    return replace(scores, bias=scores.bias + scores.sink, sink=None, sinks=None)
