"""Scores of what a model reads of a sound, as scores of its moments."""

from dataclasses import replace

import numpy as np
import torch

from ..inputs.encoding import Signal
from ..methods import Scores
from ..results.media import AudioScores

__all__ = ["split_sound"]


def split_sound(scores: Scores, signal: Signal, tokens: int) -> tuple[Scores, AudioScores]:
    """Split scores of frames and tokens.

    Frames after the end of the sound, which fill it up to the length that the model reads, belong to no moment: what
    they contribute is part of the bias, as is what attention sinks among the frames contribute.

    Args:
        scores: (G, 1, S + T), the S frames first, with their bias.
        signal: The sound.
        tokens: T.

    Returns:
        The scores of the tokens, (G, 1, T), and those of the moments.
    """
    count = scores.values.shape[-1] - tokens
    frames, words = scores.values[..., :count], scores.values[..., count:]  # (G, 1, S), (G, 1, T)
    seconds = float(signal.about["seconds"] or (signal.times[-1][1] if signal.times else count))
    end = signal.times[-1][1] if signal.times else seconds
    edges = np.arange(count + 1, dtype=np.float64) * (end / count)
    inside = max(int((edges[:-1] < seconds - 1e-6).sum()), 1)  # n
    times = np.stack([edges[:inside], np.minimum(edges[1 : inside + 1], seconds)], -1).astype(np.float32)  # (n, 2)
    bias = torch.as_tensor(scores.bias) + frames[..., inside:].sum(-1)  # (G, 1)
    sinks = None if scores.sinks is None else scores.sinks[count:]
    sink = scores.sink
    if sink is not None and (sinks is None or not bool(sinks.any())):
        bias, sink, sinks = bias + sink, None, None
    audio = AudioScores(
        scores=frames[:, 0, :inside].contiguous().numpy(),
        name=str(signal.about["name"]),
        times=times,
        seconds=seconds,
        loudness=signal.about["loudness"],
    )
    return replace(scores, values=words, bias=bias, sink=sink, sinks=sinks), audio
