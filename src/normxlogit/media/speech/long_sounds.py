"""Sounds beyond the model's length: windows are transcribed by themselves, and their results joined."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

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


class Window(NamedTuple):
    """A window of a sound with its transcript, explained."""

    start: float  # seconds
    sound: Sound
    transcript: Attribution
    kept: int  # how many of its generated tokens are in the transcript of the whole sound, the first ones


def windows_of(sound: Sound, seconds: float | None) -> list[tuple[float, Sound]]:
    """Cut a sound at quiet moments into windows of at most some seconds, each with those at which it begins."""
    if seconds is None or sound.rate is None or (sound.seconds or 0.0) <= seconds:
        return [(0.0, sound)]
    size, moment, windows, start = int(seconds * sound.rate), max(int(MOMENT * sound.rate), 1), [], 0
    count = max(int(LAST * size) // moment, 1)
    while len(sound.samples) - start > size:
        tail = sound.samples[start + size - count * moment : start + size].reshape(count, moment)
        quietest = int(np.square(tail, dtype=np.float64).sum(-1).argmin())
        end = start + size - (count - quietest) * moment + moment // 2
        windows.append((start, sound.samples[start:end]))
        start = end
    windows.append((start, sound.samples[start:]))
    return [(first / sound.rate, replace(sound, samples=samples)) for first, samples in windows]


def joined(sound: Sound, windows: Sequence[Window]) -> Attribution:
    """Return the results of windows as that of the whole sound.

    A token rests on the moments and the tokens of its own window; to others it has a score of 0. What attention sinks
    contribute is part of the bias, and so is what the tokens contribute that a window's decoder begins with where the
    first window's begins with others, such as those of another language.
    """
    first = windows[0].transcript
    prompt = first.prompt_tokens or 0  # P
    width = prompt + sum(window.kept for window in windows)  # T
    moments = sum(len(window.transcript.audio[0].times) for window in windows)  # n
    scores, biases, targets, text = [], [], list[Target](), ""
    times: list[npt.NDArray[np.float32]] = []
    tokens = first.units.take(range(prompt))
    for start, _, g, count in windows:
        own_prompt, audio = g.prompt_tokens or 0, g.audio[0]
        column, moment = len(tokens), width + sum(map(len, times))
        rows = np.zeros((count, width + moments), np.float32)
        rows[:, column : column + count] = g.scores[:count, own_prompt : own_prompt + count]
        rows[:, moment : moment + len(audio.times)] = audio.scores[:count]
        bias = sum((part[:count] for part in (g.bias, g.sink) if part is not None), np.zeros(count, np.float32))
        if g.token_ids[:own_prompt] == first.token_ids[:prompt]:
            rows[:, :prompt] = g.scores[:count, :own_prompt]
        else:
            bias = bias + g.scores[:count, :own_prompt].sum(-1)
        scores.append(rows)
        biases.append(bias)
        times.append(audio.times + np.float32(start))
        text += " " if text and not text[-1].isspace() and not (g.completion or "")[:1].isspace() else ""
        targets += [_moved(target, column - own_prompt, len(text)) for target in g.targets[:count]]
        units = g.units.take(range(own_prompt, own_prompt + count))
        spans = units.spans or ()
        moved = tuple((begin + len(text), stop + len(text)) for begin, stop in spans)
        tokens += replace(units, spans=None if units.spans is None else moved)
        text += (g.text or "")[: spans[-1][1]] if spans else g.completion or ""
    note = f"the sound has {sound.seconds or 0.0:.1f} s and was read in {len(windows)} windows, cut at quiet moments"
    seconds, places = sound.seconds or first.audio[0].seconds, np.concatenate(times)
    whole_sound = SoundScores(name=sound.name, first=width, places=places, seconds=seconds, loudness=sound.loudness)
    notes = (note for window in windows for note in window.transcript.notes)
    return replace(
        first,
        scores=np.concatenate(scores),
        units=tokens + whole_sound.as_units(),
        media=(whole_sound,),
        text=None if first.text is None else text,
        completion=text,
        predictions=tuple(p for _, _, g, count in windows for p in g.predictions[:count]),
        generated=tuple(p for _, _, g, count in windows for p in g.generated[:count]),
        targets=tuple(targets),
        diagnostics={
            name: tuple(value for _, _, g, count in windows for value in g.diagnostics[name][:count])
            for name in first.diagnostics
        },
        bias=None if first.bias is None else np.concatenate(biases),
        sink=None,
        sinks=(),
        notes=tuple(dict.fromkeys((*notes, note))),
    )


def _moved(target: Target, tokens: int, characters: int) -> Target:
    """Return a target of a window with its place in the whole sound."""
    position = None if target.position is None else target.position + tokens
    span = None if target.span is None else (target.span[0] + characters, target.span[1] + characters)
    return target._replace(position=position, span=span)
