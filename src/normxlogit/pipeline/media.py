"""Scores of pictures and sounds, from those of the tokens that stand for them or of the parts that they enter by."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from ..errors import MethodError, UnsupportedModelError
from ..inputs.encoding import Encoding
from ..inputs.sounds import moments_of
from ..methods import FrozenGradient, Method, Scores
from ..results.media import AudioScores, ImageScores

Media = dict[str, Any]
"""The fields `images` and `audio` of a result."""


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


def with_media(context: Encoding, scores: Scores, *, layers: bool) -> tuple[Scores, Media]:
    """Return scores of words alone, and those of the pictures and sounds of their prompt.

    What parts of padding contribute, which are nowhere in a picture, is added to the bias: the sum stays. So is what
    attention sinks contribute if all of them are frames of a sound.

    Args:
        context: What was read.
        scores: Of one text on the host, (G, L, T); where an encoder reads a sound, its frames come before the tokens.
        layers: Whether results have an axis of layers.

    Raises:
        UnsupportedModelError: If the places of a picture are not known.
    """
    fields: Media = {"images": (), "audio": ()}
    media, signal = context.media, context.signal
    if signal is not None and signal.sound is not None:
        scores, frames = _frames_as_parts(scores, len(context)), scores.values.shape[-1] - len(context)
        end = signal.times[-1][1] if signal.times else 0.0  # the model's rate may not be known
        media = (moments_of(signal.sound, frames, end or signal.sound.seconds or float(frames)),)
    elif signal is not None and signal.picture is not None:
        media = (signal.picture,)
    if not media:
        return scores, fields
    values = scores.values.clone()
    nowhere = np.zeros(values.shape[:2]) if scores.parts is None else scores.parts.sum(-1).double().numpy()  # (G, L)
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
        nowhere -= placed.reshape(*placed.shape[:2], -1).sum(-1, dtype=np.float64)
        if scores.parts is None:
            nowhere += part_scores.sum(-1, dtype=np.float64)
        values[..., tokens] = 0
        name = "images" if placed.ndim == 4 else "audio"
        kept: type[ImageScores | AudioScores] = ImageScores if placed.ndim == 4 else AudioScores
        more_fields: dict[str, Any] = {kept.geometry: spread.where, "tokens": medium.tokens, **medium.about}
        fields[name] += (kept(scores=placed if layers else placed[:, 0], name=medium.name, **more_fields),)
    bias = None if scores.bias is None else scores.bias + torch.from_numpy(nowhere).to(scores.bias)
    return replace(scores, values=values, bias=bias, parts=None), fields


def _frames_as_parts(scores: Scores, tokens: int) -> Scores:
    """Return scores, (G, L, S + T), whose first S are those of parts and the last T of tokens."""
    frames = scores.values.shape[-1] - tokens  # S
    sinks = None if scores.sinks is None else scores.sinks[frames:]
    scores = replace(scores, values=scores.values[..., frames:], parts=scores.values[..., :frames], sinks=sinks)
    if scores.bias is None or scores.sink is None or (sinks is not None and bool(sinks.any())):
        return scores
    return replace(scores, bias=scores.bias + scores.sink, sink=None, sinks=None)


def joined_media(first: tuple[Any, ...], second: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the scores of the same pictures or sounds for the generated tokens of two results, one after the other."""
    return tuple(
        replace(after, scores=np.concatenate([before.scores, after.scores]))
        for before, after in zip(first, second, strict=True)
    )
