"""Scores of what an input holds beside its text, from those of placeholder tokens, or of its own parts."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch

from ..errors import UnsupportedModelError
from ..inputs.encoding import EncodedMedium, Encoding
from ..methods import Scores
from ..results.storage.schema import FloatArray
from ..results.units.media import Medium, medium_class
from ..results.units.units import Units


class Placed(NamedTuple):
    """A picture or a sound of a prompt with its scores."""

    medium: Medium  # whose `first` is 0 until `appended` knows how many units come before
    scores: FloatArray  # (G, L, places)


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
        media = tuple(filter(None, [context.signal.medium(frames)]))
        scores = _frames_as_parts(scores, frames) if frames else scores
    if not media:
        return scores, []
    tokens_of_media = [token for medium in media for token in medium.tokens]
    all_parts = scores.values[..., tokens_of_media] if scores.parts is None else scores.parts  # (G, L, parts of all)
    placed_media = [_at_places(medium, scores) for medium in media]
    values, bias = scores.values.clone(), scores.bias
    values[..., tokens_of_media] = 0
    if bias is not None:
        with_place = sum(placed.scores.sum(-1, dtype=np.float64) for placed in placed_media)  # (G, L)
        bias = bias + (all_parts.double().sum(-1) - torch.as_tensor(with_place)).to(bias)
    return replace(scores, values=values, bias=bias, parts=None), placed_media


def _at_places(medium: EncodedMedium, scores: Scores) -> Placed:
    """Spread the scores of the parts of a picture or sound, or else of its tokens, over its places.

    Args:
        medium: A picture or a sound as the model reads it.
        scores: The scores of a prompt, whose parts are the patches or frames of all its media.

    Raises:
        UnsupportedModelError: If it is not known where the parts, or what the tokens stand for, are in it.
    """
    if scores.parts is not None:
        spread, values = medium.by_part, scores.parts
        hint = "" if medium.by_token is None else "; read_at=1 reads its tokens"
    else:
        spread, values = medium.by_token, scores.values[..., list(medium.tokens)]
        hint = "; read_at=0 reads its patches"
    if spread is None:
        raise UnsupportedModelError(
            f"cannot tell which part of {medium.name} a score belongs to: its processor returns other numbers for it "
            f"in a prompt than alone, or parts that form no grid{hint}"
        )
    at_places = spread(values.numpy())  # (G, L, h, w) of a picture, (G, L, n) of a sound
    details: dict[str, Any] = {"places": spread.where, "tokens": medium.tokens, **medium.details}
    result_medium = medium_class(medium.kind)(kind=medium.kind, name=medium.name, first=0, **details)
    return Placed(result_medium, at_places.reshape(*at_places.shape[:2], -1))  # (G, L, places)


def appended(
    units: Units, scores: FloatArray, placed: Sequence[Placed], *, layers: bool
) -> tuple[Units, FloatArray, tuple[Medium, ...]]:
    """Append the parts of pictures and sounds to the T units of a text and their scores, (G, T) or (G, L, T)."""
    media = []
    for medium, part_scores in placed:
        first = len(units)
        media.append(replace(medium, first=first))
        units += medium.as_units()
        scores = np.concatenate([scores, part_scores if layers else part_scores[:, 0]], -1)
    return units, scores, tuple(media)


def _frames_as_parts(scores: Scores, frames: int) -> Scores:
    """Return scores, (G, L, S + T), whose first S are those of the frames of a sound, with these as its parts."""
    sinks = None if scores.sinks is None else scores.sinks[frames:]
    scores = replace(scores, values=scores.values[..., frames:], parts=scores.values[..., :frames], sinks=sinks)
    if scores.bias is None or scores.sink is None or (sinks is not None and bool(sinks.any())):
        return scores
    return replace(scores, bias=scores.bias + scores.sink, sink=None, sinks=None)
