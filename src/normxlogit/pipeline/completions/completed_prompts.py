"""Prompts with completions that the model generates, or that are given."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch

from ...copies.memory import enough_memory
from ...errors import InputError
from ...inputs.chat import Prompt, ReadPrompt, read_prompt
from ...inputs.encoder import private_tokenizer
from ...inputs.encoding import Encoding, check_fits, check_ids
from ...model.generation import generated_ids
from ...model.task_model import TaskModel
from ...results.storage.schema import Strings
from ...tasks.base import GenerateSettings, generating_task
from ...tasks.seq2seq import with_first_tokens
from .completed import Completed
from .generation_settings import (
    decoder_ids,
    generation_config,
    merged_settings,
    most_new_tokens,
    row_of_ids,
    sampling_note,
)
from .reasoning import ReasoningSpec


@enough_memory("let the model go on with this prompt")
def generate_each(
    model: TaskModel,
    prompts: Sequence[Prompt | ReadPrompt | Encoding],
    options: GenerateSettings,
    reasoning: ReasoningSpec | None = None,
) -> list[Completed]:
    """Generate completions of prompts, in batches if that gives the same tokens; several of a prompt are in a row.

    Args:
        model: A model that generates.
        prompts: The prompts.
        options: The settings of `generate` that the call gives.
        reasoning: Where completions reason; None for what the tokenizer says.

    Raises:
        InputError: If a prompt or a setting cannot be read, or there is no room to generate.
    """
    model.refresh()
    generating_task(model)
    prompted = [encode_prompt(model, prompt) for prompt in prompts]
    options = merged_settings(model, options)
    rooms = [_room(model, prompt, options) for prompt in prompted]
    sequences: dict[int, list[list[int]]] = {}  # of each prompt
    with torch.inference_mode():
        for count in sorted({room.most for room in rooms}, reverse=True):  # generate has one limit for a batch
            indices = [index for index, room in enumerate(rooms) if room.most == count]
            config, generate_options = generation_config(model, options, count)
            generated = generated_ids(model, [prompted[index].encoding for index in indices], config, generate_options)
            sequences.update(zip(indices, generated, strict=True))
    of_sampling = sampling_note(model, options)
    decoder_start = decoder_ids(options)
    completions = []
    for index, (prompt, room) in enumerate(zip(prompted, rooms, strict=True)):
        for ids in sequences[index]:
            completed = _completed(model, prompt, ids, (*of_sampling, *room.notes), decoder_start)
            completions.append(completed.with_reasoning(model, reasoning))
    return completions


class _Room(NamedTuple):
    """How many tokens are generated at most, and a note if that is fewer than requested."""

    most: int
    notes: Strings = ()


def _room(model: TaskModel, prompt: Completed, options: GenerateSettings) -> _Room:
    """Return the room for what is generated after a prompt."""
    limit = model.answer_limit
    encoding = prompt.encoding
    requested = most_new_tokens(model, options, len(encoding) if encoding.source is None else 1)
    if limit is None or requested <= limit - len(encoding):
        return _Room(requested)
    count = limit - len(encoding)
    return _Room(count, (f"the model reads {limit} tokens, so it could write only {count}",))


def _completed(
    model: TaskModel, prompt: Completed, ids: list[int], notes: Strings, decoder_start: list[int]
) -> Completed:
    """Return a prompt with the tokens that `generate` returned.

    Args:
        model: A model that generates.
        prompt: The prompt.
        ids: What `generate` returned; of a decoder beside an encoder with the tokens that it began with.
        notes: Further notes.
        decoder_start: The tokens with which the caller let a decoder begin; none for that of the model.
    """
    encoding = prompt.encoding
    if encoding.source is not None:
        count = len(decoder_start) or 1
        if decoder_start and ids[:count] != decoder_start:  # generate has put its own first token before these
            count += 1
        encoding = with_first_tokens(model.tokenizer, encoding, ids[:count])
        ids = ids[count:]
        prompt = replace(prompt, prompt_tokens=len(encoding))
    sequence = generating_task(model).appended(model, encoding, ids)
    return replace(prompt, encoding=replace(sequence, notes=(*prompt.encoding.notes, *notes)))


def encode_prompt(model: TaskModel, prompt: Prompt | ReadPrompt | Encoding) -> Completed:
    """Encode a prompt, without a completion."""
    encoding, rendered = _read_prompt(model, prompt)
    limit = model.answer_limit
    if limit is not None and limit <= len(encoding):
        lengths = f"the prompt has {len(encoding)} tokens and the model reads {limit}"
        raise InputError(f"{lengths}: there is no room to generate")
    return Completed(encoding, len(encoding), len(encoding.text or ""), rendered)


def read_completion(
    model: TaskModel,
    prompt: Prompt | ReadPrompt | Encoding,
    completion: str | Sequence[int],
    *,
    longer: bool = False,
    reasoning: ReasoningSpec | None = None,
    settings: GenerateSettings | None = None,
) -> Completed:
    """Encode a prompt and a given completion as one text, which only with `longer` may exceed the model's length.

    A token that holds the end of the one and the beginning of the other belongs to the completion. `settings` are
    those of `generate` with which it is written.
    """
    model.refresh()
    task = generating_task(model)
    prompt_encoding, rendered = _read_prompt(model, prompt)
    if isinstance(completion, str) and isinstance(prompt, Encoding):
        completion = private_tokenizer(model.tokenizer).encode(completion, add_special_tokens=False)
    if isinstance(completion, str):
        settings = merged_settings(model, settings or {})
        encoding, count = task.read_completion(model, rendered, prompt_encoding, completion, settings)
    else:
        count = len(prompt_encoding)
        ids = row_of_ids(completion, "a completion is a text or a row of token ids")
        check_ids(ids, model.encoder.vocabulary, "the completion")
        encoding = task.appended(model, prompt_encoding, ids)
    if count == 0:
        raise InputError("nothing stands before the completion; give a prompt")
    if len(encoding) <= count:
        raise InputError("the completion is empty")
    if not longer:
        parts = "prompt and completion have" if encoding.source is None else "the completion has"
        check_fits(parts, len(encoding), model.answer_limit)
    completed = Completed(encoding, count, len(prompt_encoding.text or ""), rendered)
    return completed.with_reasoning(model, reasoning)


def _read_prompt(model: TaskModel, prompt: Prompt | ReadPrompt | Encoding) -> tuple[Encoding, ReadPrompt]:
    """Return a prompt of any kind as the model reads it, and as it was read from the caller."""
    task = generating_task(model)
    if isinstance(prompt, Encoding):
        return prompt, ReadPrompt(prompt.text or "", None)
    if isinstance(prompt, ReadPrompt):
        return task.read_prompt(model, prompt), prompt
    if isinstance(prompt, str):
        prompt = model.pipeline.prefix + prompt
    rendered = read_prompt(model.reader, prompt, model.pipeline.chat)
    for medium in rendered.media:
        task.check_reads(model, medium.kind)
    encoding = task.read_prompt(model, rendered)
    longest = model.pipeline.longest_prompt
    if longest is not None and len(encoding) > longest:
        raise InputError(
            f"the prompt has {len(encoding)} tokens, and the pipeline was made with max_length={longest}, to which it "
            "truncates prompts; shorten it, or make the pipeline without"
        )
    return encoding, rendered
