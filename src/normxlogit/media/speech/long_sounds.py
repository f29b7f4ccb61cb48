"""Sounds beyond the model's length: windows are transcribed by themselves, and their results joined."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ... import Attribution
from ...results import Prediction, Target
from ...results.storage.schema import FloatArray, Measured
from ...results.units.units import Units
from ...text.characters import moved
from ..inputs.sounds import Sound
from ..units import SoundScores

TAIL = 0.2
"""A window ends at the quietest moment in this last share of it."""

MOMENT = 0.1
"""Seconds over which the loudness is averaged."""


class Window(NamedTuple):
    """A window of a sound with its transcript, explained."""

    start: float  # in the whole sound, in seconds
    sound: Sound
    transcript: Attribution
    kept: int  # how many of its first generated tokens are in the transcript of the whole sound


def windows_of(sound: Sound, seconds: float | None) -> list[tuple[float, Sound]]:
    """Cut a sound at quiet moments into windows of at most some seconds.

    Args:
        sound: The sound.
        seconds: The most seconds of a window; None for any length.

    Returns:
        The second at which each window begins, and the window.
    """
    # `or 0.0` is for the type checker alone: with a rate, the seconds are known.
    if seconds is None or sound.rate is None or (sound.seconds or 0.0) <= seconds:
        return [(0.0, sound)]
    size = int(seconds * sound.rate)  # of a window, in samples
    moment_size = max(int(MOMENT * sound.rate), 1)  # in samples
    moment_count = max(int(TAIL * size) // moment_size, 1)  # of the tail of a window
    windows = []
    start = 0
    while len(sound.samples) - start > size:
        tail_start = start + size - moment_count * moment_size
        tail = sound.samples[tail_start : start + size].reshape(moment_count, moment_size)
        quietest = int(np.square(tail, dtype=np.float64).sum(-1).argmin())
        end = tail_start + quietest * moment_size + moment_size // 2  # the middle of the quietest moment
        windows.append((start, sound.samples[start:end]))
        start = end
    windows.append((start, sound.samples[start:]))
    return [(first / sound.rate, replace(sound, samples=samples)) for first, samples in windows]


class _WholeSound:
    """The transcript of a whole sound, to which those of its windows are appended.

    It has T tokens, of which the last G are generated, and rests on n moments; of a window g generated tokens are kept.
    """

    def __init__(self, windows: Sequence[Window]) -> None:
        self.first = windows[0].transcript
        # P, how many tokens its decoder begins with; `or 0` is for the type checker alone, as of every transcript here.
        self.prompt = self.first.prompt_tokens or 0
        self.width = self.prompt + sum(window.kept for window in windows)  # T
        self.moments = sum(len(window.transcript.audio[0].times) for window in windows)  # n
        self.units = self.first.units.take(range(self.prompt))  # of the tokens
        self.text = ""
        self.scores: list[FloatArray] = []  # of each window, (g, T + n)
        self.biases: list[FloatArray] = []  # (g,)
        self.times: list[FloatArray] = []  # (n, 2), in seconds
        self.targets: tuple[Target, ...] = ()
        self.predictions: tuple[Prediction, ...] = ()
        self.generated: tuple[Prediction, ...] = ()
        self.notes: list[str] = []

    def append(self, window: Window) -> None:
        """Append the transcript of a window."""
        g = window.transcript
        count = window.kept  # how many of its generated tokens are appended
        prompt = g.prompt_tokens or 0  # how many of the window's first tokens are not generated
        self._append_scores(g, count, prompt)  # whose columns follow from the units and times so far
        self.times.append(g.audio[0].times + np.float32(window.start))
        self.predictions += g.predictions[:count]
        self.generated += g.generated[:count]
        self.notes += g.notes
        # Windows are cut at quiet moments, which count as places between words: a space joins their texts.
        is_separated = self.text[-1:].isspace() or (g.completion or "")[:1].isspace()
        if self.text and not is_separated:
            self.text += " "
        tokens_before = len(self.units) - prompt
        self.targets += tuple(_moved(target, tokens_before, len(self.text)) for target in g.targets[:count])
        self._append_text(g, g.units.take(range(prompt, prompt + count)))

    def _append_text(self, g: Attribution, units: Units) -> None:
        """Append the text of a window as far as it is kept, and its generated tokens as units."""
        if units.spans:  # the text ends at the last token that is kept
            kept_text = (g.text or "")[: units.spans[-1][1]]
            units = replace(units, spans=tuple(moved(span, len(self.text)) for span in units.spans))
        else:  # without characters of tokens, all of it
            kept_text = g.completion or ""
        self.text += kept_text
        self.units += units

    def diagnostics(self, windows: Sequence[Window]) -> dict[str, Measured]:
        """Return what the method measured of itself for each generated token."""
        measured: dict[str, Measured] = dict.fromkeys(self.first.diagnostics, ())
        for window in windows:
            for name in measured:
                measured[name] += window.transcript.diagnostics[name][: window.kept]
        return measured

    def _append_scores(self, g: Attribution, count: int, prompt: int) -> None:
        """Append the scores of a window's first `count` tokens, before its units and times are appended."""
        audio = g.audio[0]
        first_token = len(self.units)
        first_moment = self.width + sum(map(len, self.times))
        rows = np.zeros((count, self.width + self.moments), np.float32)  # (g, T + n)
        rows[:, first_token : first_token + count] = g.scores[:count, prompt : prompt + count]
        rows[:, first_moment : first_moment + len(audio.times)] = audio.scores[:count]
        # Either may be None; what sinks contribute is part of the bias of the joined result.
        bias = sum((part[:count] for part in (g.bias, g.sink) if part is not None), np.zeros(count, np.float32))
        prompt_scores = g.scores[:count, :prompt]  # (g, P)
        if g.token_ids[:prompt] == self.first.token_ids[: self.prompt]:
            rows[:, : self.prompt] = prompt_scores
        else:  # the tokens of another prompt, such as of another language, have no column
            bias = bias + prompt_scores.sum(-1)
        self.scores.append(rows)
        self.biases.append(bias)


def joined(sound: Sound, windows: Sequence[Window]) -> Attribution:
    """Return the results of windows as that of the whole sound.

    A token rests on the moments and the tokens of its own window; to others it has a score of 0. What attention sinks
    contribute is part of the bias, and so is what the tokens contribute that a window's decoder begins with where the
    first window's begins with others, such as those of another language.

    Args:
        sound: The whole sound.
        windows: Its windows, in their order.
    """
    whole = _WholeSound(windows)
    for window in windows:
        whole.append(window)
    first = whole.first
    note = f"the sound has {sound.seconds or 0.0:.1f} s and was read in {len(windows)} windows, cut at quiet moments"
    units_of_sound = SoundScores(
        name=sound.name,
        first=whole.width,
        places=np.concatenate(whole.times),
        seconds=sound.seconds or first.audio[0].seconds,
        loudness=sound.loudness,
    )
    return replace(
        first,
        scores=np.concatenate(whole.scores),
        units=whole.units + units_of_sound.as_units(),
        media=(units_of_sound,),
        text=None if first.text is None else whole.text,
        completion=whole.text,
        predictions=whole.predictions,
        generated=whole.generated,
        targets=whole.targets,
        diagnostics=whole.diagnostics(windows),
        bias=None if first.bias is None else np.concatenate(whole.biases),
        sink=None,
        sinks=(),
        notes=tuple(dict.fromkeys((*whole.notes, note))),
    )


def _moved(target: Target, tokens: int, characters: int) -> Target:
    """Return a target of a window, with its place in the transcript moved on by some tokens and characters."""
    position = None if target.position is None else target.position + tokens
    span = None if target.span is None else moved(target.span, characters)
    return target._replace(position=position, span=span)
