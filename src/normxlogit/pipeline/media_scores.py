"""Scores of what an input holds beside its text, from those of placeholder tokens, or of its own parts."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch

from ..errors import UnsupportedModelError
from ..inputs.encoded_media import EncodedMedium
from ..inputs.encoding import Encoding
from ..methods import Scores
from ..results.storage.schema import FloatArray
from ..results.units.media import Medium, medium_class
from ..results.units.units import Units


class Placed(NamedTuple):
    """A picture or a sound of a prompt, with the scores of its places.

    Attributes:
        medium: The picture or sound; its `first`, the index of its first unit, is set by `appended`.
        scores: The scores of the patches of the picture, or of the moments of the sound, (G, L, places).
    """

    medium: Medium
    scores: FloatArray


def split_media_scores(context: Encoding, scores: Scores) -> tuple[Scores, list[Placed]]:
    """Separate the scores of a prompt's text, (G, L, T), from those of its pictures and sounds.

    Where an encoder reads a sound, its frames come before the tokens. The padding of a picture has no place in it: what
    it contributes is added to the bias, so that the sum stays. So is what attention sinks contribute where all of them
    are frames of a sound.

    Args:
        context: The prompt with its completion, as the model reads it.
        scores: The scores of all that it reads.

    Raises:
        UnsupportedModelError: If it cannot be told which part of a picture or a sound a score belongs to.
    """
    media = context.media
    if context.signal is not None:
        frames = scores.values.shape[-1] - len(context)  # of an encoder, before the tokens
        media = tuple(filter(None, [context.signal.medium(frames)]))  # it may be None
        # Without frames the method has scored the decoder's tokens alone.
        scores = _frames_as_parts(scores, frames) if frames else scores
    if not media:
        return scores, []
    media_tokens = [token for medium in media for token in medium.tokens]
    part_scores = scores.values[..., media_tokens] if scores.parts is None else scores.parts  # (G, L, parts of all)
    placed_media = [_at_places(medium, scores) for medium in media]
    text_scores = scores.values.clone()
    text_scores[..., media_tokens] = 0
    bias = scores.bias
    if bias is not None:
        sum_with_place = sum(placed.scores.sum(-1, dtype=np.float64) for placed in placed_media)  # (G, L)
        sum_without_place = part_scores.double().sum(-1) - torch.as_tensor(sum_with_place)  # (G, L)
        bias = bias + sum_without_place.to(bias)
    return replace(scores, values=text_scores, bias=bias, parts=None), placed_media


def _at_places(medium: EncodedMedium, scores: Scores) -> Placed:
    """Spread the scores of the parts of a picture or sound, or else of its tokens, over its places.

    Args:
        medium: A picture or a sound as the model reads it.
        scores: The scores of a prompt, whose parts are the patches or frames of all its media.

    Raises:
        UnsupportedModelError: If it is not known where the parts, or what the tokens stand for, are in it.
    """
    if scores.parts is not None:
        to_places = medium.by_part
        values = scores.parts
        hint = "" if medium.by_token is None else "; read_at=1 reads its tokens"
    else:
        to_places = medium.by_token
        values = scores.values[..., list(medium.tokens)]
        hint = "; read_at=0 reads its patches"
    if to_places is None:
        raise UnsupportedModelError(
            f"cannot tell which part of {medium.name} a score belongs to: its processor returns other numbers for it "
            f"in a prompt than alone, or parts that form no grid{hint}"
        )
    at_places = to_places(values.numpy())  # (G, L, h, w) of a picture, (G, L, n) of a sound
    details: dict[str, Any] = {"places": to_places.where, "tokens": medium.tokens, **medium.details}
    result_medium = medium_class(medium.kind)(kind=medium.kind, name=medium.name, first=0, **details)
    return Placed(result_medium, at_places.reshape(*at_places.shape[:2], -1))  # (G, L, places)


def appended(
    units: Units, scores: FloatArray, placed: Sequence[Placed], *, layers: bool
) -> tuple[Units, FloatArray, tuple[Medium, ...]]:
    """Append the places of pictures and sounds to the units of a text, and their scores to those of the text.

    Args:
        units: The T units of the text.
        scores: Their scores, (G, T), or with `layers` (G, L, T).
        placed: The pictures and sounds with their scores, (G, L, places) each.
        layers: Whether results keep the axis of layers; without it there is one layer.

    Returns:
        All units, all scores, and the media, each with the index of its first unit.
    """
    media = []
    for medium, part_scores in placed:
        first = len(units)
        media.append(replace(medium, first=first))
        units += medium.as_units()
        scores = np.concatenate([scores, part_scores if layers else part_scores[:, 0]], -1)
    return units, scores, tuple(media)


def _frames_as_parts(scores: Scores, frames: int) -> Scores:
    """Return the scores of a sound's frames and of the tokens behind them as those of parts and of tokens.

    Args:
        scores: The scores of both, (G, L, frames + T).
        frames: The number of frames.
    """
    token_sinks = None if scores.sinks is None else scores.sinks[frames:]
    scores = replace(scores, values=scores.values[..., frames:], parts=scores.values[..., :frames], sinks=token_sinks)
    has_token_sinks = token_sinks is not None and bool(token_sinks.any())
    if scores.bias is None or scores.sink is None or has_token_sinks:
        return scores
    # A result names its sinks among the tokens: what sinks among the frames alone contribute goes to the bias.
    return replace(scores, bias=scores.bias + scores.sink, sink=None, sinks=None)
