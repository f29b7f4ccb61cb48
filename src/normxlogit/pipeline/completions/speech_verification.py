"""Verify transcripts: what a transcript loses without the moments of its sound that have the highest scores."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional

from ...copies.pool import private_clone
from ...inputs.media.sounds import Sound
from ...model.task_model import TaskModel
from ...results.attribution import Attribution
from ..options import Verify
from ..removable import moments_of
from ..verification import SHOWN, Answer, MeasuredQuantity, Tokens, run_searches


def with_speech_verification(model: TaskModel, sound: Sound, g: Attribution, verify: Verify) -> Attribution:
    """Return a result with the log-probability of its transcript without moments of the sound, which are silenced.

    Args:
        model: The model of speech.
        sound: What it heard.
        g: The transcript and its explanation.
        verify: How many moments are silenced; None for no verification.
    """
    if verify is None:
        return g
    audio = g.audio[0]
    parts = moments_of(audio)
    if len(parts) < 2 or sound.rate is None:
        return replace(g, notes=(*g.notes, "not verified: the sound has no two moments that could be silenced"))
    count = min(SHOWN if verify == "auto" else verify, len(parts) - 1)
    measure = _frames_measure(model, g) if cast(Any, model.task).per_frame else _decoder_measure(model, g)
    times = audio.times.tolist()

    def answers(keys: list[tuple[int, Tokens]]) -> Iterable[Answer]:
        for _, moments in keys:
            yield Answer(None, measure(_silenced(sound, [times[i] for i in moments])), None)

    measured = MeasuredQuantity("the transcript", "log-probability", "moment", "silenced")
    (verification,) = run_searches([(parts, measured)], count, answers)
    return replace(g, verified=verification)


def _silenced(sound: Sound, spans: list[list[float]]) -> Sound:
    samples, rate = sound.samples.copy(), sound.rate or 1
    for start, end in spans:
        samples[round(start * rate) : round(end * rate)] = 0
    return replace(sound, samples=samples)


def _decoder_measure(model: TaskModel, g: Attribution) -> Callable[[Sound], float]:
    """Return what measures the log-probability of a decoder's transcript, of the caller's model as it is."""
    ids = torch.tensor([g.token_ids], device=model.device)  # (1, T)
    start = g.prompt_tokens or 0

    @torch.inference_mode()
    def measure(sound: Sound) -> float:
        inputs = _inputs(cast(Any, model.task).read_signal(model, sound).inputs, model)
        logits = private_clone(model.unmodified)(**inputs, decoder_input_ids=ids[:, :-1]).logits  # (1, T - 1, V)
        chances = logits[0, start - 1 :].float().log_softmax(-1)  # (G, V)
        return float(chances.gather(1, ids[0, start:, None]).sum())

    return measure


def _frames_measure(model: TaskModel, g: Attribution) -> Callable[[Sound], float]:
    """Return what measures the log-probability of a transcript by all ways to emit it (Graves et al., 2006)."""
    task = cast(Any, model.task)
    emitted = torch.tensor([g.token_ids[g.prompt_tokens or 0 :]])  # (1, G)

    @torch.inference_mode()
    def measure(sound: Sound) -> float:
        (encoding,), _ = task.encode(model, [{"array": sound.samples, "sampling_rate": sound.rate}])
        inputs = _inputs(encoding.signal.inputs, model)
        chances = private_clone(model.unmodified)(**inputs).logits.float().log_softmax(-1).cpu()  # (1, S, V)
        lengths = torch.tensor([chances.shape[1]]), torch.tensor([emitted.shape[1]])
        loss: Tensor = functional.ctc_loss(
            chances.transpose(0, 1), emitted, *lengths, blank=task.blank_id(model), reduction="sum"
        )
        return -float(loss)

    return measure


def _inputs(values: dict[str, Tensor], model: TaskModel) -> dict[str, Tensor]:
    """Return the inputs of one sound as a batch."""
    names = {"signal_mask": "attention_mask"}
    return {names.get(name, name): value[None].to(model.device) for name, value in values.items()}
