"""Prompts with completions that the model generates, or that are given."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch

from ...copies.memory import enough_memory
from ...errors import InputError
from ...inputs.chat import Prompt, ReadPrompt, read_prompt
from ...inputs.encoder import private_tokenizer
from ...inputs.encoding import Encoding
from ...inputs.token_ids import check_ids
from ...inputs.windows import check_fits
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
        options: The settings of `generate` that the call gives, which are merged here.
        reasoning: Where completions reason; None for what the tokenizer says.

    Raises:
        InputError: If a prompt or a setting cannot be read, or there is no room to generate.
    """
    model.refresh()
    generating_task(model)
    prompted = [encode_prompt(model, prompt) for prompt in prompts]
    options = merged_settings(model, options)
    limits = [_new_token_limit(model, prompt, options) for prompt in prompted]
    ids_of_prompts: dict[int, list[list[int]]] = {}  # by prompt: the token ids of each of its sequences
    with torch.inference_mode():
        for count in sorted({limit.most for limit in limits}, reverse=True):  # generate has one limit for a batch
            indices = [index for index, limit in enumerate(limits) if limit.most == count]
            config, generate_options = generation_config(model, options, count)
            generated = generated_ids(model, [prompted[index].encoding for index in indices], config, generate_options)
            ids_of_prompts.update(zip(indices, generated, strict=True))
    sampling_notes = sampling_note(model, options)
    given_decoder_ids = decoder_ids(options)
    completions = []
    for index, (prompt, limit) in enumerate(zip(prompted, limits, strict=True)):
        for ids in ids_of_prompts[index]:
            completed = _with_completion(model, prompt, ids, (*sampling_notes, *limit.notes), given_decoder_ids)
            completions.append(replace(completed.with_reasoning(model, reasoning), by_model=True))
    return completions


class _NewTokenLimit(NamedTuple):
    """How many tokens are generated at most, and a note if that is fewer than requested."""

    most: int
    notes: Strings = ()


def _new_token_limit(model: TaskModel, prompt: Completed, options: GenerateSettings) -> _NewTokenLimit:
    """Return how many tokens are generated at most after a prompt: as many as requested, or as the model can read.

    Args:
        model: A model that generates.
        prompt: The prompt.
        options: The merged settings.
    """
    encoding = prompt.encoding
    decoder_length = len(encoding) if encoding.source is None else 1  # a decoder beside an encoder begins with a token
    requested = most_new_tokens(model, options, decoder_length)
    limit = model.answer_limit
    # A decoder beside an encoder has a limit of its own, and `encoding` holds its first tokens, not the source's.
    if limit is None or requested <= limit - len(encoding):
        return _NewTokenLimit(requested)
    count = limit - len(encoding)
    return _NewTokenLimit(count, (f"the model reads {limit} tokens, so it could write only {count}",))


def _with_completion(
    model: TaskModel, prompt: Completed, ids: list[int], notes: Strings, given_decoder_ids: Sequence[int]
) -> Completed:
    """Return a prompt with its completion.

    Args:
        model: The model.
        prompt: The prompt.
        ids: What `generate` returned: the tokens of the completion; of a decoder beside an encoder, its first ones too.
        notes: Notes on the completion.
        given_decoder_ids: The first tokens that the call gave to such a decoder, see `decoder_ids`.
    """
    encoding = prompt.encoding
    if encoding.source is not None:  # the first tokens of the decoder, which are not generated, belong to the prompt
        first_count = max(len(given_decoder_ids), 1)  # at least a start token, which `generate` puts there
        if ids[: len(given_decoder_ids)] != list(given_decoder_ids):  # generate puts its own start token before those
            first_count = len(given_decoder_ids) + 1
        encoding = with_first_tokens(model.tokenizer, encoding, ids[:first_count])
        ids = ids[first_count:]
        prompt = replace(prompt, prompt_tokens=len(encoding))
    sequence = generating_task(model).appended(model, encoding, ids)
    return replace(prompt, encoding=replace(sequence, notes=(*prompt.encoding.notes, *notes)))


def encode_prompt(model: TaskModel, prompt: Prompt | ReadPrompt | Encoding) -> Completed:
    """Encode a prompt, without a completion; refuse one that leaves the model no room to generate."""
    encoding, rendered = _read_prompt(model, prompt)  # `rendered`: the prompt with its chat template applied
    limit = model.answer_limit
    if limit is not None and limit <= len(encoding):
        lengths = f"the prompt has {len(encoding)} tokens and the model reads {limit}"
        raise InputError(f"{lengths}: there is no room to generate")
    prompt_characters = len(encoding.text or "")
    return Completed(encoding, prompt_tokens=len(encoding), prompt_characters=prompt_characters, prompt=rendered)


def read_completion(
    model: TaskModel,
    prompt: Prompt | ReadPrompt | Encoding,
    completion: str | Sequence[int],
    *,
    longer: bool = False,
    reasoning: ReasoningSpec | None = None,
    settings: GenerateSettings | None = None,
) -> Completed:
    """Encode a prompt and a given completion as one text.

    A token that holds the end of the one and the beginning of the other belongs to the completion.

    Args:
        model: A model that generates.
        prompt: The prompt.
        completion: The completion, as a text or as token ids.
        longer: Whether both together may exceed the model's length, as where they are read in windows.
        reasoning: Where the completion reasons; None for what the tokenizer says.
        settings: The settings of `generate` that the call gives, which are merged here; None for none.

    Raises:
        InputError: If one of them is empty or cannot be read, or both are too long.
    """
    model.refresh()
    task = generating_task(model)
    prompt_encoding, rendered = _read_prompt(model, prompt)
    # Behind a prompt of token ids, which stay as they are, a text is encoded by itself, and read as ids below.
    if isinstance(completion, str) and isinstance(prompt, Encoding):
        completion = private_tokenizer(model.tokenizer).encode(completion, add_special_tokens=False)
    if isinstance(completion, str):
        settings = merged_settings(model, settings or {})
        encoding, prompt_tokens = task.read_completion(model, rendered, prompt_encoding, completion, settings)
    else:
        ids = row_of_ids(completion, "a completion is a text or a row of token ids")
        check_ids(ids, model.encoder.vocabulary, "the completion")
        encoding = task.appended(model, prompt_encoding, ids)
        prompt_tokens = len(prompt_encoding)
    if prompt_tokens == 0:
        raise InputError("nothing stands before the completion; give a prompt")
    if len(encoding) <= prompt_tokens:
        raise InputError("the completion is empty")
    if not longer:
        parts = "prompt and completion have" if encoding.source is None else "the completion has"
        check_fits(parts, len(encoding), model.answer_limit)
    prompt_characters = len(prompt_encoding.text or "")
    completed = Completed(encoding, prompt_tokens, prompt_characters, prompt=rendered)
    return completed.with_reasoning(model, reasoning)


def _read_prompt(model: TaskModel, prompt: Prompt | ReadPrompt | Encoding) -> tuple[Encoding, ReadPrompt]:
    """Encode a prompt; also return it with its chat template applied, and with what it holds beside the text.

    Raises:
        InputError: If it cannot be read, or is longer than the caller's pipeline lets it be.
    """
    task = generating_task(model)
    if isinstance(prompt, Encoding):
        return prompt, ReadPrompt(prompt.text or "", None)
    if isinstance(prompt, ReadPrompt):  # the library's own, as for `cite`: a prefix that belongs to it is in it
        return task.read_prompt(model, prompt), prompt
    if isinstance(prompt, str):  # as a pipeline, which puts no prefix before a chat
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
