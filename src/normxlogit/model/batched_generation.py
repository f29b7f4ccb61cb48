"""Batched generation, where each prompt gets the same tokens as by itself."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig

from ..copies.arithmetic import full_float32
from ..copies.memory import result_or_none
from ..copies.pool import private_clone
from ..errors import InputError
from ..inputs.encoding import Encoding
from ..parts.proofs import prompts_are_continued_as_alone
from .batch_attempts import batch_attempts
from .model_copy import input_errors, lengths_to_try
from .task_model import TaskModel

PADDING_SAFE = {
    "_from_model_config",
    "bos_token_id",
    "decoder_start_token_id",
    "early_stopping",
    "eos_token_id",
    "length_penalty",
    "max_new_tokens",
    "min_new_tokens",
    "pad_token_id",
    "temperature",
    "top_k",
    "top_p",
    "transformers_version",
    "use_cache",
}
"""Settings of greedy generation that padding does not affect; repetition penalties count padding as text."""

NEUTRAL_AT_ONE = {
    "num_beams",
    "num_beam_groups",
    "num_return_sequences",
    "repetition_penalty",
    "encoder_repetition_penalty",
}
"""Settings that have no effect at 1; all others have none if they are unset, false or 0."""

TRIAL_STEPS = 2
"""Tokens that a test generates: one after the prompt, and one with the cache."""


def batched_generation(
    model: TaskModel, prompts: Sequence[Encoding], config: GenerationConfig, options: Mapping[str, Any]
) -> list[list[list[int]]]:
    """Return the token ids generated after each prompt; for an encoder-decoder model, all ids of the decoder.

    Where several sequences are asked for, each prompt has several; otherwise one.

    Greedy prompts of similar lengths are batched, padded on the left, if a trial shows that this does not change a
    prompt's next-token logits. All others go one at a time.
    """
    one_by_one = any(prompt.source is not None or prompt.media for prompt in prompts)
    ends = end_ids(config)
    if len(prompts) == 1 or options or one_by_one or not _is_plain_greedy(config):
        generated = [_generate_tokens(model, [prompt], config, options) for prompt in prompts]
        padding = config.pad_token_id
        return [
            rows if len(rows) == 1 else [_without_padding(ids, ends, padding) for ids in rows] for rows in generated
        ]

    by_index: dict[int, list[list[int]]] = {}
    for attempt in batch_attempts(model, prompts, memory_factor=2):  # keys and values are kept
        with attempt as indices:
            together = _generate_together(model, [prompts[index] for index in indices], config)
            by_index.update((index, [until_end(ids, ends)]) for index, ids in zip(indices, together, strict=True))
    return [by_index[index] for index in range(len(prompts))]


def _generate_together(model: TaskModel, prompts: Sequence[Encoding], config: GenerationConfig) -> list[list[int]]:
    """Return the tokens generated after each prompt, in a batch if a test shows the same tokens as for each alone.

    The trial is made afterwards, for then it is known how long the texts have become: a rotary embedding that stretches
    does so at some length of prompt and completion.
    """
    if len(prompts) > 1 and not model.copy.generates_batched.refuted:
        generated = _generate_tokens(model, prompts, config, {})
        if _same_as_alone(model, prompts, max(map(len, prompts)) + len(generated[0])):
            return generated
    return [_generate_tokens(model, [prompt], config, {})[0] for prompt in prompts]


def _generate_tokens(
    model: TaskModel, prompts: Sequence[Encoding], config: GenerationConfig, options: Mapping[str, Any]
) -> list[list[int]]:
    """Return the tokens generated after each prompt, padded to one length."""
    texts = [prompt.ids if prompt.source is None else prompt.source.ids for prompt in prompts]
    media_inputs = model.batch(prompts, [0]).inputs if prompts[0].media else {}
    output = _call_generate(model, texts, config, options, media_inputs)
    start = 0 if prompts[0].source is not None else max(map(len, prompts))  # a decoder's sequences are returned whole
    generated: list[list[int]] = getattr(output, "sequences", output)[:, start:].tolist()
    return generated


def _call_generate(
    model: TaskModel,
    texts: Sequence[list[int]],
    config: GenerationConfig,
    options: Mapping[str, Any],
    media_inputs: Mapping[str, Tensor] | None = None,
) -> Any:
    """Call the model's own `generate` on the token ids of prompts, padded on the left, or of one source."""
    longest = max(map(len, texts))
    padded = [[model.pad_id] * (longest - len(ids)) + ids for ids in texts]
    batch_ids = torch.tensor(padded, device=model.device)  # (B, P)
    mask = torch.tensor([[0] * (longest - len(ids)) + [1] * len(ids) for ids in texts], device=model.device)  # (B, P)
    copy: Any = private_clone(model.copy.unmodified)
    inputs = {**(media_inputs or {}), "input_ids": batch_ids, "attention_mask": mask}
    with input_errors(copy, inputs, doing="continue"):
        return copy.generate(**inputs, generation_config=config, **options)


def _is_plain_greedy(config: GenerationConfig) -> bool:
    """Return whether the settings are those of greedy generation and nothing else."""
    in_effect = {name: value for name, value in config.to_diff_dict().items() if value}
    changed = {name for name, value in in_effect.items() if not (name in NEUTRAL_AT_ONE and value == 1)}
    return changed <= PADDING_SAFE


def end_ids(config: GenerationConfig) -> set[int]:
    """Return the end-of-sequence tokens."""
    ends = config.eos_token_id
    return set() if ends is None else {int(ends)} if isinstance(ends, int) else {int(token) for token in ends}


def until_end(ids: list[int], ends: set[int]) -> list[int]:
    """Return token ids up to the first end-of-sequence token; only padding follows it."""
    for index, token in enumerate(ids):
        if token in ends:
            return ids[: index + 1]
    return ids


def _without_padding(ids: list[int], ends: set[int], padding: int | None) -> list[int]:
    """Return a generated sequence without its padding; it may begin with the end-of-sequence token, as BART's does."""
    unpadded = ids[:1] + until_end(ids[1:], ends)
    while len(unpadded) > 1 and unpadded[-1] == padding and padding not in ends:
        unpadded.pop()
    return unpadded


def _same_as_alone(model: TaskModel, prompts: Sequence[Encoding], final_length: int) -> bool:
    """Return whether prompts get the same logits in a batch as alone, testing lengths that are not proved yet.

    Args:
        final_length: Tokens of the longest text after generation.
    """
    proved = model.copy.generates_batched
    by_length = {len(prompt): prompt.ids for prompt in prompts}
    shortest, longest = min(by_length), max(by_length)
    trial_length = max(longest, final_length - TRIAL_STEPS)  # a trial generates tokens after it
    if proved.covers(shortest, trial_length):
        return True
    if shortest < longest:
        trials = [by_length[length] for length in lengths_to_try(by_length)]
    else:  # two equally long texts, as long as at the end of the generation
        trials = [by_length[shortest] + [model.filler] * (trial_length - longest)]
    try:
        is_same = result_or_none(lambda: all(_same_beside_longer(model, ids, trial_length) for ids in trials))
    except InputError:  # the token that fills need not make a text that the model reads
        is_same = False
    if is_same:
        proved.add(shortest, trial_length)
    proved.refuted = is_same is False  # without memory for the trial, nothing is known
    return bool(is_same)


@full_float32()
def _same_beside_longer(model: TaskModel, ids: list[int], length: int) -> bool:
    """Return whether a prompt's next logits are the same alone and in a batch with a text of `length` tokens."""
    return prompts_are_continued_as_alone(
        _next_logits(model, [ids]), _next_logits(model, [ids, [model.filler] * length])
    )


def _next_logits(model: TaskModel, texts: Sequence[list[int]]) -> Tensor:
    """Return the logits of the first two tokens generated after the first of some prompts, (2, V)."""
    config = GenerationConfig(
        max_new_tokens=TRIAL_STEPS,
        min_new_tokens=TRIAL_STEPS,
        do_sample=False,
        pad_token_id=model.pad_id,
        output_logits=True,
        return_dict_in_generate=True,
    )
    return torch.stack([logits[0] for logits in _call_generate(model, texts, config, {}).logits])  # (2, V)
