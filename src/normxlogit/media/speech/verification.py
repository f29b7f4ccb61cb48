"""Verify transcripts: the loss of log-probability without the moments of the highest scores."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional

from ...copies.pool import private_clone
from ...leave_out.answers import Answer
from ...leave_out.outcomes import Outcomes
from ...leave_out.removal import TextRemoval, Tokens
from ...leave_out.search import run_searches
from ...leave_out.units import Removable, Verify, picked
from ...model.task_model import TaskModel
from ...pipeline.progress import progress_bar
from ...results.attribution import Attribution
from ..inputs.sounds import Sound


def with_speech_verification(model: TaskModel, sound: Sound, g: Attribution, verify: Verify) -> Attribution:
    """Return a result with the log-probability of its transcript when moments of the sound are silenced.

    Args:
        model: The model of speech.
        sound: The sound.
        g: The transcript and its explanation.
        verify: Which moments are silenced; None for no verification.
    """
    if verify is None:
        return g
    audio = g.audio[0]
    measure = (_frames_measure if cast(Any, model.task).per_frame else _decoder_measure)(model, g)

    def ask(silenced: list[Tokens]) -> Iterator[tuple[Tokens, float]]:
        times = audio.times.tolist()
        for moments in silenced:
            yield moments, measure(sound.without([times[moment - audio.first] for moment in moments]))

    table: Outcomes[Tokens, float] = Outcomes(ask, partial(progress_bar, show=None, description="verifying"))

    def answers(removals: list[TextRemoval]) -> list[Answer]:
        return [Answer(None, value, None) for value in table(moments for _, moments in removals)]

    parts = [] if sound.rate is None else audio.removable()
    found = Removable(parts, "moment", "silenced", "the transcript")
    (verified,) = run_searches([g], [picked(g.whole(), found, verify)], answers)
    return verified


def _decoder_measure(model: TaskModel, g: Attribution) -> Callable[[Sound], float]:
    """Return a function that measures the log-probability of a decoder's transcript."""
    start = g.prompt_tokens or 0
    ids = torch.tensor([g.token_ids], device=model.device)  # (1, T)

    @torch.inference_mode()
    def measure(sound: Sound) -> float:
        inputs = _inputs(cast(Any, model.task).read_signal(model, sound).inputs, model)
        logits = private_clone(model.unmodified)(**inputs, decoder_input_ids=ids[:, :-1]).logits  # (1, T - 1, V)
        log_probabilities = logits[0, start - 1 :].float().log_softmax(-1)  # (G, V)
        return float(log_probabilities.gather(1, ids[0, start:, None]).sum())

    return measure


def _frames_measure(model: TaskModel, g: Attribution) -> Callable[[Sound], float]:
    """Return a function that measures the CTC log-probability of a transcript (Graves et al., 2006)."""
    task = cast(Any, model.task)
    emitted = torch.tensor([g.token_ids[g.prompt_tokens or 0 :]])  # (1, G)

    @torch.inference_mode()
    def measure(sound: Sound) -> float:
        (encoding,), _ = task.encode(model, [{"array": sound.samples, "sampling_rate": sound.rate}])
        inputs = _inputs(encoding.signal.inputs, model)
        log_probabilities = private_clone(model.unmodified)(**inputs).logits.float().log_softmax(-1).cpu()  # (1, S, V)
        lengths = torch.tensor([log_probabilities.shape[1]]), torch.tensor([emitted.shape[1]])
        loss: Tensor = functional.ctc_loss(
            log_probabilities.transpose(0, 1), emitted, *lengths, blank=task.blank_id(model), reduction="sum"
        )
        return -float(loss)

    return measure


def _inputs(values: Mapping[str, Tensor], model: TaskModel) -> Mapping[str, Tensor]:
    """Return the inputs of one sound as a batch."""
    names = {"signal_mask": "attention_mask"}
    return {names.get(name, name): value[None].to(model.device) for name, value in values.items()}
