"""Verify completions and transcripts: the loss without the words, sources or moments of the highest scores."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ...copies.pool import private_clone
from ...inputs.media.sounds import Sound
from ...model.task_model import TaskModel
from ...results.attribution import Attribution
from ...results.storage.schema import FloatArray
from ...results.units.spans import NamedSpan
from ...results.units.words import UnitScore
from ...results.verification import RemovedUnit
from ..options import Verify
from ..verification import SHOWN, Answer, MeasuredQuantity, Tokens, removable_moments, run_searches, with_spaces_before
from .ablations import Ablations
from .completed import Completed


def with_completion_verifications(
    model: TaskModel, completed: Sequence[Completed], results: Sequence[Attribution], verify: Verify
) -> list[Attribution]:
    """Return results with the log-probability of each completion without words or sources of its prompt.

    Args:
        model: The language model.
        completed: The prompts with their completions.
        results: Their explanations.
        verify: How many of them are removed; None for no verification.
    """
    if verify is None:
        return list(results)
    return [_verified(model, prompt, result, verify) for prompt, result in zip(completed, results, strict=True)]


def _verified(model: TaskModel, completed: Completed, g: Attribution, verify: Verify) -> Attribution:
    unit: RemovedUnit = "word" if g.has_words else "token"
    if g.units.kind[0] != "token":
        unit, (parts, pieces) = "source", _sources(g, completed)
    else:
        parts = _words(g) if g.text_units == len(completed.joined().encoding) else []
        pieces = [NamedSpan(part.text, 0, 0, part.tokens) for part in parts]
    if len(parts) < 2 or verify is None:
        kind = "sources" if unit == "source" else "words"
        return replace(g, notes=(*g.notes, f"not verified: the prompt has no two {kind} that could be removed"))
    count = min(SHOWN if verify == "auto" else verify, len(parts) - 1)  # a completion of nothing is none
    ablations = Ablations(model, completed, pieces)

    def answers(keys: list[tuple[int, Tokens]]) -> Iterable[Answer]:
        removed = [set(units) for _, units in keys]
        present = np.array([[not units.issuperset(part.tokens) for part in parts] for units in removed])  # (N, W)
        return [Answer(None, float(nats), None) for nats in ablations(present).sum(1)]

    measured = MeasuredQuantity("the completion", "log-probability", unit, "deleted")
    (verification,) = run_searches([(parts, measured)], count, answers)
    return replace(g, verified=verification)


def _sources(g: Attribution, completed: Completed) -> tuple[list[UnitScore], list[NamedSpan]]:
    """Return the text sources of the prompt, by their indices among the units, with their tokens."""
    sequence, totals = completed.sequenced(), _totals(g)
    parts, pieces = [], []
    for i in g.units.sources:
        start, end = (g.units.spans or ())[i]
        tokens = sequence.tokens_in(start, end, of_answer=False) if g.units.kind[i] not in ("medium", "region") else ()
        if tokens:
            parts.append(UnitScore(g.units.names[i], (i,), float(totals[i])))
            pieces.append(NamedSpan(parts[-1].text, start, end, tokens))
    return parts, pieces


def _words(g: Attribution) -> list[UnitScore]:
    """Return the words of the prompt with their scores."""
    prompt_tokens, totals = g.prompt_tokens or 0, _totals(g)
    if g.has_words:
        units = [(word.text, tuple(i for i in word.tokens if i < prompt_tokens)) for word in g.words()]
    else:
        units = [(g.tokens[i], (i,)) for i in range(prompt_tokens) if not g.special_tokens_mask[i]]
    media = {token for medium in g.media for token in medium.tokens}
    words = [
        UnitScore(text, tokens, float(totals[list(tokens)].sum()))
        for text, tokens in units
        if tokens and media.isdisjoint(tokens)
    ]
    return with_spaces_before(words)


def _totals(g: Attribution) -> FloatArray:
    """Return the scores summed over the completion, (U,), at the last layer if there are several."""
    g = g if g.layers is None else g.layer(g.layers[-1])
    totals: FloatArray = g.scores.sum(0)
    return totals


# --- transcripts -----------------------------------------------------------------------------------------------------


def with_speech_verification(model: TaskModel, sound: Sound, g: Attribution, verify: Verify) -> Attribution:
    """Return a result with the log-probability of its transcript when moments of the sound are silenced.

    Args:
        model: The model of speech.
        sound: What it heard.
        g: The transcript and its explanation.
        verify: How many moments are silenced; None for no verification.
    """
    if verify is None:
        return g
    audio = g.audio[0]
    parts = removable_moments(audio)
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
