"""Sounds beyond what a model hears at once: windows, each transcribed by itself, and their results as one."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..inputs.sounds import Sound
from ..results.generation import GenerationAttribution

LAST = 0.2
"""Share of a window at whose quietest moment it ends."""

MOMENT = 0.1
"""Seconds whose loudness is compared."""


def windows_of(sound: Sound, seconds: float | None) -> list[tuple[float, Sound]]:
    """Cut a sound into windows, at quiet moments.

    Args:
        sound: The sound.
        seconds: Most of a window; None for no limit.

    Returns:
        Each window with the seconds at which it begins.
    """
    if seconds is None or sound.rate is None or (sound.seconds or 0.0) <= seconds:
        return [(0.0, sound)]
    size, windows, start = int(seconds * sound.rate), [], 0
    while len(sound.samples) - start > size:
        end = start + size - _quiet(sound.samples[start : start + size], sound.rate)
        windows.append((start, sound.samples[start:end]))
        start = end
    windows.append((start, sound.samples[start:]))
    return [(first / sound.rate, replace(sound, samples=samples)) for first, samples in windows]


def _quiet(samples: npt.NDArray[np.float32], rate: int) -> int:
    """Return how many samples before the end of a window its quietest moment is."""
    moment = max(int(MOMENT * rate), 1)
    count = max(int(LAST * len(samples)) // moment, 1)
    tail = samples[len(samples) - count * moment :].reshape(count, moment)
    quietest = int(np.square(tail, dtype=np.float64).sum(-1).argmin())
    return (count - quietest) * moment - moment // 2


def joined(
    sound: Sound, results: Sequence[tuple[float, GenerationAttribution]], end: int | None
) -> GenerationAttribution:
    """Return the results of windows as that of the whole sound.

    A token rests on the moments and the tokens of its own window; to others it has a score of 0. What attention sinks
    contribute is part of the bias, and so is what the tokens contribute that a window's decoder begins with where the
    first window's begins with others, such as those of another language.

    Args:
        sound: The whole sound.
        results: Of each window, with the seconds at which it begins.
        end: The token that ends a transcript, which is left out between windows.
    """
    first = results[0][1]
    prompt = first.prompt_tokens  # P
    counts = [_count(result, end, last=result is results[-1][1]) for _, result in results]
    width, moments = prompt + sum(counts), sum(len(result.audio[0].times) for _, result in results)  # T, n
    scores, heard, biases = [], [], []
    times: list[npt.NDArray[np.float32]] = []
    tokens, ids, special = list(first.tokens[:prompt]), list(first.token_ids[:prompt]), [True] * prompt
    offsets, targets, text = list((first.offsets or ())[:prompt]), [], ""
    for (start, result), count in zip(results, counts, strict=True):
        before, inside = result.prompt_tokens, slice(result.prompt_tokens, result.prompt_tokens + count)
        column, moment = len(tokens), sum(map(len, times))
        audio = result.audio[0]
        rows, shares = np.zeros((count, width), np.float32), np.zeros((count, moments), np.float32)
        rows[:, column : column + count] = result.scores[:count, inside]
        shares[:, moment : moment + len(audio.times)] = audio.scores[:count]
        bias = np.zeros(count, np.float32) if result.bias is None else result.bias[:count]
        bias = bias if result.sink is None else bias + result.sink[:count]
        if result.token_ids[:before] == first.token_ids[:prompt]:
            rows[:, :prompt] = result.scores[:count, :before]
        else:
            bias = bias + result.scores[:count, :before].sum(-1)
        scores.append(rows)
        heard.append(shares)
        biases.append(bias)
        times.append(audio.times + np.float32(start))
        targets += [replace(t, position=None if t.position is None else t.position - before + column)
                    for t in result.targets[:count]]  # fmt: skip
        spans = list((result.offsets or ())[inside])
        text += " " if text and not text[-1].isspace() and not result.completion[:1].isspace() else ""
        offsets += [(begin + len(text), stop + len(text)) for begin, stop in spans]
        tokens += result.tokens[inside]
        ids += result.token_ids[inside]
        special += result.special_tokens_mask[inside]
        text += (result.text or "")[: spans[-1][1]] if spans else result.completion
    note = f"the sound has {sound.seconds or 0.0:.1f} s and was read in {len(results)} windows, cut at quiet moments"
    about: dict[str, Any] = {"seconds": sound.seconds, "loudness": sound.loudness, "times": np.concatenate(times)}
    kept = [(result, slice(0, count)) for (_, result), count in zip(results, counts, strict=True)]
    return replace(
        first,
        scores=np.concatenate(scores),
        tokens=tuple(tokens),
        token_ids=tuple(ids),
        offsets=None if first.offsets is None else tuple(offsets),
        special_tokens_mask=tuple(special),
        text=None if first.text is None else text,
        completion=text,
        predictions=tuple(p for result, part in kept for p in result.predictions[part]),
        generated=tuple(p for result, part in kept for p in result.generated[part]),
        targets=tuple(targets),
        diagnostics={n: tuple(v for r, part in kept for v in r.diagnostics[n][part]) for n in first.diagnostics},
        bias=None if first.bias is None else np.concatenate(biases),
        sink=None,
        sinks=(),
        audio=(replace(first.audio[0], scores=np.concatenate(heard), **about),),
        notes=tuple(dict.fromkeys((*(note for result, _ in kept for note in result.notes), note))),
    )


def _count(result: GenerationAttribution, end: int | None, *, last: bool) -> int:
    """Return how many of the generated tokens of a window are kept."""
    count = len(result.token_ids) - result.prompt_tokens
    return count - 1 if not last and count > 1 and result.token_ids[-1] == end else count
