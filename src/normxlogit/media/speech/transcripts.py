"""Transcripts of sounds, with each token explained by moments."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from ... import Attribution, Attributions, Scores
from ...copies.memory import enough_memory
from ...errors import InputError, MethodError, TargetError
from ...inputs.decoded_tokens import readable_tokens
from ...inputs.encoding import EMPTY, Encoding
from ...methods import FrozenGradient, Request, check_finite, run_method
from ...model.generation import end_ids, generated_from
from ...model.task_model import TaskModel
from ...pipeline.completions.completed import Completed
from ...pipeline.completions.completion import explain_completions, scored_tokens
from ...pipeline.completions.generation_settings import (
    generation_config,
    merged_settings,
    most_new_tokens,
    sampling_note,
)
from ...pipeline.options import Options
from ...results import Prediction, Target
from ...results.storage.schema import Fields, Strings
from ...tasks.base import GenerateSettings
from ...tasks.seq2seq import with_first_tokens
from ..inputs.items import media_items
from ..inputs.sounds import Sound, feature_extractor_of, is_sound, read_sound
from ..tasks.encoded_signals import Signal
from ..tasks.signals import naming_input
from ..tasks.speech import Emitted, speech_task
from .long_sounds import Window, joined, windows_of
from .verification import with_speech_verification

DECODER_PROMPT = 4
"""Most prompt tokens of Whisper's decoder: start, language, task, no timestamps."""


def explain_speech(
    model: TaskModel, sounds: Any, options: Options, settings: GenerateSettings
) -> Attribution | Attributions[Attribution]:
    """Transcribe sounds, and explain every token of a transcript by moments of its sound.

    Args:
        model: A model of speech.
        sounds: One sound or several.
        options: How they are explained.
        settings: Those of `generate`.

    Returns:
        One result, or several in the order of the sounds.

    Raises:
        InputError: If a sound cannot be read, or a setting is not applied.
        MethodError: If the method is not frozen-gradient.
    """
    if options.parts is not None:
        raise InputError("parts= divides what follows a prompt; of a transcript group_targets(...) does")
    options = options.for_media(())  # scored by the method for pictures and sounds; the sound is not in a prompt
    if not isinstance(options.method, FrozenGradient) or options.layers is not None:
        raise MethodError("moments of a sound are scored by frozen-gradient, without layers=")
    items, single = media_items(sounds, is_sound, "sound")
    model.refresh()
    read_sounds = []  # all of them, before the first is transcribed
    for place, item in enumerate(items):
        with naming_input(place):
            read_sounds.append(read_sound(item, speech_task(model).rate, place))
    settings = _checked_settings(model, settings)
    results = [_explain_sound(model, sound, options, settings) for sound in read_sounds]
    return results[0] if single else Attributions(results)


def _checked_settings(model: TaskModel, settings: GenerateSettings) -> GenerateSettings:
    """Return the settings of `generate`, with those of the model; refuse those that have no effect."""
    # `max_new_tokens` may be given for every model of speech: the command line always gives it.
    unused = sorted(name for name, value in settings.items() if value is not None and name != "max_new_tokens")
    if speech_task(model).per_frame and unused:  # nothing is generated token by token
        raise InputError(
            f"{model.name} answers at every frame of a sound, and has no use for {unused[0]}=; leave it out"
        )
    settings = merged_settings(model, settings)
    if settings.get("num_return_sequences", 1) != 1:
        raise InputError("a sound is transcribed once: num_return_sequences must be 1")
    return settings


def _explain_sound(model: TaskModel, sound: Sound, options: Options, settings: GenerateSettings) -> Attribution:
    """Transcribe, explain and verify a sound, in windows if it exceeds the model's length."""
    if speech_task(model).per_frame:  # reads a sound of any length, as one window
        result = _explain_frames(model, sound, options)
        windows = [Window(0.0, sound, result, len(result.generated))]
        return with_speech_verification(model, windows, result, options.verify)
    chunk = getattr(feature_extractor_of(model.reader), "chunk_length", None)  # most seconds that the model reads
    sounds = windows_of(sound, None if chunk is None else float(chunk))
    windows = []
    for start, sound_of_window in sounds:
        transcript = _explain_decoder(model, sound_of_window, options, settings)
        if transcript is not None:  # a window of silence may have none
            windows.append(Window(start, sound_of_window, transcript, kept=len(transcript.generated)))
    if not windows:
        raise InputError(f"{model.name} generates nothing of this sound")
    # The token that ends a transcript is left out between windows.
    windows[:-1] = [_without_end(model, window) for window in windows[:-1]]
    result = windows[0].transcript if len(sounds) == 1 else joined(sound, windows)
    return with_speech_verification(model, windows, result, options.verify)


def _without_end(model: TaskModel, window: Window) -> Window:
    """Return a window without the token that ends its transcript, unless it is the only one."""
    config = getattr(model.module, "generation_config", None)  # CTC models generate nothing
    generated = window.transcript.generated
    has_end = config is not None and len(generated) > 1 and generated[-1].id in end_ids(config)
    return window._replace(kept=len(generated) - 1) if has_end else window


@enough_memory("transcribe this sound")
@torch.inference_mode(False)  # the caller may be in inference mode, in which nothing can be backpropagated
def _explain_decoder(
    model: TaskModel, sound: Sound, options: Options, settings: GenerateSettings
) -> Attribution | None:
    """Transcribe a sound by an encoder-decoder model, and explain the transcript; None if no token is generated."""
    signal: Signal = speech_task(model).read_signal(model, sound)
    limit = model.answer_limit
    most_tokens = most_new_tokens(model, settings, DECODER_PROMPT)
    if limit is not None:
        most_tokens = min(most_tokens, max(limit - DECODER_PROMPT, 1))  # leaves room for the decoder's prompt
    prompt_ids, ids = generated_from(model, signal.inputs, *generation_config(model, settings, most_tokens))
    if not ids:
        return None
    notes = (*sound.notes, *sampling_note(model, settings))
    decoder_prompt = with_first_tokens(model.tokenizer, replace(EMPTY, notes=notes, signal=signal), prompt_ids)
    sequence = replace(speech_task(model).appended(model, decoder_prompt, ids), signal=signal)
    completed = Completed(sequence, prompt_tokens=len(prompt_ids), prompt_characters=0)
    return explain_completions(model, [completed], [options])[0]


@enough_memory("transcribe this sound")
@torch.inference_mode(False)
def _explain_frames(model: TaskModel, sound: Sound, options: Options) -> Attribution:
    """Explain the tokens that a CTC model emits."""
    if any(named is not None for named in (options.target, options.targets, options.contrast)):
        raise TargetError("a model that answers at every frame is explained for the tokens that it emits, as they are")
    method = options.method
    task = speech_task(model)
    # Samples without a rate are taken to be at the model's.
    item = {"array": sound.samples, "sampling_rate": sound.rate} if sound.rate else sound.samples
    (encoding,), _ = task.encode(model, [item])
    forward = method.forward(model, model.batch([encoding], [0]))
    emitted = task.emitted(forward.logits[0].detach(), model)
    if not emitted:
        raise InputError(f"{model.name} emits no token for this sound: it answers with the blank at every frame")
    frames, predictions = zip(*emitted, strict=True)
    emitted_ids = [prediction.id for prediction in predictions]
    target = Emitted(
        ids=torch.tensor([emitted_ids], device=forward.logits.device),  # (1, G)
        contrast=None,
        positions=None,
        has_target_axis=True,
        task=task,
        frames=torch.tensor([frames], device=forward.logits.device),  # (1, G)
    )
    request = Request(model, forward, target)
    scores = _with_unscored_tokens(run_method(method, request).on_host(), len(emitted))
    check_finite(method, request, scores.values.numpy())
    notes = (*sound.notes, *encoding.notes)
    token_ids = [task.blank_id(model), *emitted_ids]  # a result has a prompt, for which the blank stands
    sequence = _emitted_text(model, token_ids, notes, replace(encoding.signal, sound=sound))
    targets = _emitted_targets(predictions, sequence)
    fields: Fields = {"predictions": predictions, "generated": predictions, "targets": targets}
    completed = Completed(sequence, prompt_tokens=1, prompt_characters=0)
    return scored_tokens(model, completed, options, scores, **fields)


def _emitted_targets(predictions: Sequence[Prediction], sequence: Encoding) -> tuple[Target, ...]:
    """Return emitted tokens as targets, with their characters; special tokens have none.

    Args:
        predictions: The emitted tokens.
        sequence: Their encoding, in which the blank stands before them.
    """
    tokens = zip(predictions, (sequence.offsets or ())[1:], sequence.special[1:], strict=True)
    return tuple(
        Target("token", emitted.label, emitted.id, span=None if is_special else span)
        for emitted, span, is_special in tokens
    )


def _with_unscored_tokens(of_frames: Scores, count: int) -> Scores:
    """Return the scores of G tokens over S frames, (1, G, 1, S), with the tokens as further units, (G, 1, S + G).

    An answer's units are what is read and then its own tokens; a model that answers at every frame reads none of them,
    so they score 0.
    """
    sinks = None if of_frames.sinks is None else functional.pad(of_frames.sinks[0], (0, count))
    values = functional.pad(of_frames.values[0], (0, count))
    return replace(of_frames.map(lambda of_batch: of_batch[0]), values=values, sinks=sinks)


def _emitted_text(model: TaskModel, token_ids: list[int], notes: Strings, signal: Signal) -> Encoding:
    """Return the encoding of the tokens that a CTC model emits, with the characters of each in the text.

    Args:
        model: The model.
        token_ids: The blank, which has no characters, and behind it the emitted tokens.
        notes: Notes of the result.
        signal: The sound.
    """
    tokens = readable_tokens(model.tokenizer, token_ids)
    delimiter = getattr(model.tokenizer, "word_delimiter_token", None)  # between words, as "|"; None of others
    pieces = [" " if name == delimiter else name for name in tokens[1:]]
    ends = np.cumsum([len(piece) for piece in pieces]).tolist()
    return Encoding(
        inputs={"input_ids": token_ids},
        tokens=tokens,
        offsets=((0, 0), *pairwise([0, *ends])),
        words=None,
        sequence_ids=(None,) * len(tokens),
        special=(True, *(token_id in model.tokenizer.all_special_ids for token_id in token_ids[1:])),
        text="".join(pieces),
        notes=notes,
        signal=signal,
    )
