"""Verify completions and transcripts: the loss without the words, sources or moments of the highest scores."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ...copies.pool import private_clone
from ...inputs.media.removed_signals import sound_without
from ...inputs.media.sounds import Sound
from ...model.task_model import TaskModel
from ...results.attribution import Attribution
from ...results.units.media import Medium
from ...results.units.spans import NamedSpan, SourceSpec
from ...results.units.words import UnitScore
from ..options import Verify
from ..verification import (
    SHOWN,
    Answer,
    Removable,
    Tokens,
    removable_moments,
    run_searches,
    text_parts,
    with_media_parts,
    with_spaces_before,
)
from .ablations import Ablations
from .completed_prompts import Completed
from .sources import media_sources


def with_completion_verifications(
    model: TaskModel,
    completed: Sequence[Completed],
    results: Sequence[Attribution],
    verify: Verify,
    divisions: Sequence[SourceSpec | None] | None = None,
) -> list[Attribution]:
    """Return results with the log-probability of each completion without parts or sources of its prompt.

    Args:
        model: The language model.
        completed: The prompts with their completions.
        results: Their explanations.
        verify: How many of them are removed; None for no verification.
        divisions: How the prompts are divided into sources; None if they are not.
    """
    if verify is None:
        return list(results)
    divided_by = [None] * len(results) if divisions is None else divisions
    return [
        _verified(model, prompt, result, verify, division)
        for prompt, result, division in zip(completed, results, divided_by, strict=True)
    ]


def _verified(
    model: TaskModel, completed: Completed, g: Attribution, verify: int | Literal["auto"], division: SourceSpec | None
) -> Attribution:
    of_tokens = g.units.kind[0] == "token"
    whole = (g if g.layers is None else g.layer(g.layers[-1])).whole()
    removable, pieces = _removable(whole, completed) if of_tokens else _sources(whole, completed, division)
    ablations = Ablations(model, completed, pieces)

    def nats_without(removed: list[Tokens]) -> Iterable[float]:
        present = [[set(units).isdisjoint(part.tokens) for part in removable.parts] for units in removed]  # (N, W)
        return map(float, ablations.nats(np.array(present)))

    return _with_losses(g, removable, verify, nats_without)


def _with_losses(
    g: Attribution,
    removable: Removable,
    verify: int | Literal["auto"],
    nats_without: Callable[[list[Tokens]], Iterable[float]],
) -> Attribution:
    """Return a result with the log-probability of its completion without the parts of the highest scores.

    Args:
        g: The result.
        removable: What can be removed.
        verify: How many parts are removed.
        nats_without: Returns the log-probabilities without sets of units.
    """
    if len(removable.parts) < 2:
        note = f"not verified: the prompt has no two {removable.unit}s that could be {removable.removed_by}"
        return replace(g, notes=(*g.notes, note))

    def answers(keys: list[tuple[int, Tokens]]) -> Iterable[Answer]:
        return [Answer(None, nats, None) for nats in nats_without([units for _, units in keys])]

    count = min(SHOWN if verify == "auto" else verify, len(removable.parts) - 1)  # a completion of nothing is none
    (verified,) = run_searches([g], [removable], count, answers)
    return verified


def _removable(whole: Attribution, completed: Completed) -> tuple[Removable, list[NamedSpan]]:
    """Return the words of a prompt and the parts of its pictures and sounds, and where in the prompt each is."""
    words = _words(whole) if whole.text_units == len(completed.joined().encoding) else []
    removable = with_media_parts(whole, words)
    pieces = []
    for part in removable.parts:
        place = _place_of(whole.media, part.tokens)
        tokens = part.tokens if place is None else ()
        pieces.append(NamedSpan(part.text, 0, 0, tokens, places=() if place is None else (place,)))
    return removable, pieces


def _place_of(media: Sequence[Medium], units: Sequence[int]) -> tuple[int, tuple[float, ...]] | None:
    """Return where some units of a result are: in which medium, and the box or the span around them; None of words."""
    for index, medium in enumerate(media):
        if medium.units.start <= units[0] < medium.units.stop:
            numbers = medium.places.shape[-1]
            places = medium.places.reshape(-1, numbers)[[unit - medium.first for unit in units]]  # (n, 4 or 2)
            starts, ends = places[:, : numbers // 2].min(0), places[:, numbers // 2 :].max(0)
            return index, (*starts.tolist(), *ends.tolist())
    return None


def _sources(
    whole: Attribution, completed: Completed, division: SourceSpec | None
) -> tuple[Removable, list[NamedSpan]]:
    """Return the sources of a prompt by their places among the units, and where in the prompt each is."""
    sequence = completed.sequenced()
    of_media = iter(media_sources(completed, division))
    parts, pieces = [], []
    for i in whole.units.sources:
        name = whole.units.names[i] or whole.units.text[i]
        if whole.units.kind[i] in ("medium", "region"):
            piece = next(of_media)
        else:
            start, end = (whole.units.spans or ())[i]
            piece = NamedSpan(name, start, end, sequence.tokens_in(start, end, of_answer=False))
        if piece.tokens or piece.places:
            parts.append(UnitScore(name, (i,), float(whole.scores[i])))
            pieces.append(piece)
    return Removable(parts, "source", "deleted"), pieces


def _words(whole: Attribution) -> list[UnitScore]:
    """Return the words of the prompt with their scores."""
    media = {token for medium in whole.media for token in medium.tokens}
    words = [part for part in text_parts(whole) if part.tokens[-1] < (whole.prompt_tokens or 0)]
    return with_spaces_before([part for part in words if media.isdisjoint(part.tokens)])


# --- transcripts -----------------------------------------------------------------------------------------------------


def with_speech_verification(model: TaskModel, sound: Sound, g: Attribution, verify: Verify) -> Attribution:
    """Return a result with the log-probability of its transcript when moments of the sound are silenced.

    Args:
        model: The model of speech.
        sound: The sound.
        g: The transcript and its explanation.
        verify: How many moments are silenced; None for no verification.
    """
    if verify is None:
        return g
    audio = g.audio[0]
    parts = [] if sound.rate is None else removable_moments(audio)
    measure = _frames_measure(model, g) if cast(Any, model.task).per_frame else _decoder_measure(model, g)
    times = audio.times.tolist()

    def nats_without(removed: list[Tokens]) -> Iterable[float]:
        for moments in removed:
            yield measure(sound_without(sound, [times[moment - audio.first] for moment in moments]))

    return _with_losses(g, Removable(parts, "moment", "silenced", "the transcript"), verify, nats_without)


def _decoder_measure(model: TaskModel, g: Attribution) -> Callable[[Sound], float]:
    """Return a function that measures the log-probability of a decoder's transcript."""
    ids = torch.tensor([g.token_ids], device=model.device)  # (1, T)
    start = g.prompt_tokens or 0

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


def _inputs(values: dict[str, Tensor], model: TaskModel) -> dict[str, Tensor]:
    """Return the inputs of one sound as a batch."""
    names = {"signal_mask": "attention_mask"}
    return {names.get(name, name): value[None].to(model.device) for name, value in values.items()}
