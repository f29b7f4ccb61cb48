"""Sounds beyond the model's length: windows are transcribed by themselves, and their results joined."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from ...results.attribution import Attribution
from ...results.targets import Target
from ..inputs.sounds import Sound
from ..units import SoundScores

LAST = 0.2
"""A window ends at the quietest moment in this last share of it."""

MOMENT = 0.1
"""Seconds over which the loudness is averaged."""


def windows_of(sound: Sound, seconds: float | None) -> list[tuple[float, Sound]]:
    """Cut a sound into windows, at quiet moments.

    Args:
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
    """Return the number of samples from the quietest moment near a window's end to the end."""
    moment = max(int(MOMENT * rate), 1)
    count = max(int(LAST * len(samples)) // moment, 1)
    tail = samples[len(samples) - count * moment :].reshape(count, moment)
    quietest = int(np.square(tail, dtype=np.float64).sum(-1).argmin())
    return (count - quietest) * moment - moment // 2


def joined(sound: Sound, results: Sequence[tuple[float, Attribution]], end: int | None) -> Attribution:
    """Return the results of windows as that of the whole sound.

    A token rests on the moments and the tokens of its own window; to others it has a score of 0. What attention sinks
    contribute is part of the bias, and so is what the tokens contribute that a window's decoder begins with where the
    first window's begins with others, such as those of another language.

    Args:
        sound: The whole sound.
        results: The result of each window, with the seconds at which the window begins.
        end: The token that ends a transcript, which is left out between windows.
    """
    first = results[0][1]
    prompt = first.prompt_tokens or 0  # P
    counts = kept_counts([result for _, result in results], end)
    width, moments = prompt + sum(counts), sum(len(result.audio[0].times) for _, result in results)  # T, n
    scores, biases, targets, text = [], [], [], ""
    times: list[npt.NDArray[np.float32]] = []
    tokens = first.units.take(range(prompt))
    for (start, result), count in zip(results, counts, strict=True):
        prompt_tokens = result.prompt_tokens or 0
        inside = slice(prompt_tokens, prompt_tokens + count)
        column, moment = len(tokens), width + sum(map(len, times))
        audio = result.audio[0]
        rows = np.zeros((count, width + moments), np.float32)
        rows[:, column : column + count] = result.scores[:count, inside]
        rows[:, moment : moment + len(audio.times)] = audio.scores[:count]
        bias = np.zeros(count, np.float32) if result.bias is None else result.bias[:count]
        bias = bias if result.sink is None else bias + result.sink[:count]
        if result.token_ids[:prompt_tokens] == first.token_ids[:prompt]:
            rows[:, :prompt] = result.scores[:count, :prompt_tokens]
        else:
            bias = bias + result.scores[:count, :prompt_tokens].sum(-1)
        scores.append(rows)
        biases.append(bias)
        times.append(audio.times + np.float32(start))
        text += " " if text and not text[-1].isspace() and not (result.completion or "")[:1].isspace() else ""
        targets += [_moved(target, column - prompt_tokens, len(text)) for target in result.targets[:count]]
        units = result.units.take(range(prompt_tokens, prompt_tokens + count))
        spans = units.spans or ()
        moved = tuple((begin + len(text), stop + len(text)) for begin, stop in spans)
        tokens += replace(units, spans=None if units.spans is None else moved)
        text += (result.text or "")[: spans[-1][1]] if spans else result.completion or ""
    note = f"the sound has {sound.seconds or 0.0:.1f} s and was read in {len(results)} windows, cut at quiet moments"
    seconds = sound.seconds or first.audio[0].seconds
    whole_sound = SoundScores(
        name=sound.name, first=width, places=np.concatenate(times), seconds=seconds, loudness=sound.loudness
    )
    parts = whole_sound.as_units()
    windows = [(result, slice(0, count)) for (_, result), count in zip(results, counts, strict=True)]
    return replace(
        first,
        scores=np.concatenate(scores),
        units=tokens + parts,
        media=(whole_sound,),
        text=None if first.text is None else text,
        completion=text,
        predictions=tuple(p for result, part in windows for p in result.predictions[part]),
        generated=tuple(p for result, part in windows for p in result.generated[part]),
        targets=tuple(targets),
        diagnostics={n: tuple(v for r, part in windows for v in r.diagnostics[n][part]) for n in first.diagnostics},
        bias=None if first.bias is None else np.concatenate(biases),
        sink=None,
        sinks=(),
        notes=tuple(dict.fromkeys((*(note for result, _ in windows for note in result.notes), note))),
    )


def _moved(target: Target, tokens: int, characters: int) -> Target:
    """Return a target of a window with its place in the whole sound."""
    position = None if target.position is None else target.position + tokens
    span = None if target.span is None else (target.span[0] + characters, target.span[1] + characters)
    return target._replace(position=position, span=span)


def kept_counts(results: Sequence[Attribution], end: int | None) -> list[int]:
    """Return how many generated tokens of each window are kept: all but those that end it, before the last window."""
    counts = [len(result.generated) for result in results]
    ended = [count > 1 and result.generated[-1].id == end for result, count in zip(results, counts, strict=True)]
    return [*(count - is_ended for count, is_ended in zip(counts[:-1], ended[:-1], strict=True)), counts[-1]]
