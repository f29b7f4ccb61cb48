"""Verify completions and transcripts: the loss without the words, sources or moments of the highest scores."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ...copies.pool import private_clone
from ...leave_out.answers import Answer
from ...leave_out.outcomes import Outcomes
from ...leave_out.removal import TextRemoval
from ...leave_out.search import run_searches
from ...leave_out.units import (
    Removable,
    Verify,
    picked,
    removable,
    removable_moments,
)
from ...media.inputs.sounds import Sound
from ...media.leave_out import sound_without
from ...media.units import Medium
from ...model.task_model import TaskModel
from ...results.attribution import Attribution
from ...results.units.spans import NamedSpan, SourceSpec
from ...results.units.words import UnitScore
from ..progress import progress_bar
from .ablations import Ablations
from .completed_prompts import Completed
from .sources import media_sources

Answers = Callable[[list[TextRemoval]], list[Answer]]


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
        verify: Which of them are removed; None for no verification.
        divisions: How the prompts are divided into sources; None if they are not.
    """
    if verify is None:
        return list(results)
    divided_by = [None] * len(results) if divisions is None else divisions
    return [
        _with_losses(result, *_losses(model, prompt, result, verify, division))
        for prompt, result, division in zip(completed, results, divided_by, strict=True)
    ]


def _losses(
    model: TaskModel, completed: Completed, g: Attribution, verify: Verify, division: SourceSpec | None
) -> tuple[Removable, Answers]:
    """Return what of a prompt is removed, and a function that measures its completion without it."""
    whole = (g if g.layers is None else g.layer(g.layers[-1])).whole()
    if whole.units.kind[0] == "token":
        found = removable(whole)
        if whole.text_units != len(completed.joined().encoding):  # an encoder's input has no scores
            found = found._replace(parts=[part for part in found.parts if part.tokens[0] >= whole.text_units])
        units = picked(whole, found, _in_characters(completed, verify))
        pieces = [_piece(whole, part) for part in units.parts]
    else:
        found, of_part = _sources(whole, completed, division)
        units = picked(whole, found, verify)
        pieces = [of_part[part.tokens] for part in units.parts]
    ablations = Ablations(model, completed, pieces, partial(progress_bar, show=None, description="verifying"))
    parts = [set(part.tokens) for part in units.parts]

    def answers(removals: list[TextRemoval]) -> list[Answer]:
        present = [[not part <= set(removed) for part in parts] for _, removed in removals]  # (N, W)
        return [Answer(None, float(nats), None) for nats in ablations.nats(np.array(present))]

    return units, answers


def _with_losses(g: Attribution, units: Removable, answers: Answers) -> Attribution:
    """Return a result with the log-probability of its completion without parts of its prompt."""
    if len(units.parts) < 2:
        note = f"not verified: the prompt has no two {units.unit}s that could be {units.removed_by}"
        return replace(g, notes=(*g.notes, note))
    most = len(units.parts) - 1  # a completion of nothing is none
    (verified,) = run_searches([g], [units._replace(most=most)], answers)
    return verified


def _in_characters(completed: Completed, named: Any) -> Any:
    """Return what a caller names, with spans of messages as spans of the whole prompt."""
    if completed.prompt.contents is None or not isinstance(named, Mapping | list | tuple):
        return named

    def placed(item: Any) -> Any:
        is_span = not isinstance(item, str) and len(item) == 3
        return cast(Any, completed.division(cast(Any, {str(item): item})))[str(item)] if is_span else item

    if isinstance(named, Mapping):
        return {name: placed(item) for name, item in named.items()}
    return [placed(item) for item in named]


def _piece(whole: Attribution, part: UnitScore) -> NamedSpan:
    """Return where in the prompt a word, or a part of a picture or a sound, is."""
    place = _place_of(whole.media, part.tokens)
    tokens = part.tokens if place is None else ()
    return NamedSpan(part.text, 0, 0, tokens, places=() if place is None else (place,))


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
) -> tuple[Removable, dict[tuple[int, ...], NamedSpan]]:
    """Return the sources of a prompt by their places among the units, and where in the prompt each of them is."""
    sequence = completed.sequenced()
    of_media = iter(media_sources(completed, division))
    parts: list[UnitScore] = []
    pieces: dict[tuple[int, ...], NamedSpan] = {}
    for i in whole.units.sources:
        name = whole.units.names[i] or whole.units.text[i]
        if whole.units.kind[i] in ("medium", "region"):
            piece = next(of_media)
        else:
            start, end = (whole.units.spans or ())[i]
            piece = NamedSpan(name, start, end, sequence.tokens_in(start, end, of_answer=False))
        if piece.tokens or piece.places:
            parts.append(UnitScore(name, (i,), float(whole.scores[i])))
            pieces[i,] = piece
    return Removable(parts, "source", "deleted"), pieces


# --- transcripts -----------------------------------------------------------------------------------------------------


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
    parts = [] if sound.rate is None else removable_moments(audio)
    measure = _frames_measure(model, g) if cast(Any, model.task).per_frame else _decoder_measure(model, g)
    times = audio.times.tolist()

    def ask(removals: list[TextRemoval]) -> Iterator[tuple[TextRemoval, Answer]]:
        for removal in removals:
            silenced = sound_without(sound, [times[moment - audio.first] for moment in removal[1]])
            yield removal, Answer(None, measure(silenced), None)

    found = Removable(parts, "moment", "silenced", "the transcript")
    units = picked(g.whole(), found, verify)
    return _with_losses(g, units, Outcomes(ask, partial(progress_bar, show=None, description="verifying")))


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
