"""Batched generation, where each prompt gets the same tokens as by itself."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig

from ..copies.memory import result_or_none
from ..copies.pool import private_clone
from ..errors import InputError
from ..inputs.encoding import Encoding
from ..parts.proofs import prompts_are_continued_as_alone
from ..parts.proved_lengths import ProvedLengths, lengths_to_try
from .map_batches import map_batches
from .proof_sample import reading
from .task_model import TaskModel

HARMLESS = {
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
"""Settings of greedy generation that padding makes no difference to; penalties of repetition count it as text."""

ONE = {"num_beams", "num_beam_groups", "num_return_sequences", "repetition_penalty", "encoder_repetition_penalty"}
"""Settings that do nothing at 1; all others do nothing where they are not set, false or 0."""

STEPS = 2
"""Tokens that a trial writes: one after the prompt, and one from what the model kept of it."""


def batched_generation(
    model: TaskModel, prompts: Sequence[Encoding], config: GenerationConfig, options: Mapping[str, Any]
) -> list[list[list[int]]]:
    """Continue prompts, and return the token ids that are generated after each, of a source all that the decoder reads.

    Where several sequences are asked for, each prompt has several; otherwise one.

    Greedy prompts of similar lengths are batched, padded on the left, if padding does not change a prompt's next-token
    logits; otherwise prompts of one length are, if the batch does not change them.
    All others go one at a time.
    """
    alone = any(prompt.source is not None or prompt.media for prompt in prompts)
    ends = end_ids(config)
    if len(prompts) == 1 or options or alone or not _plain(config):
        each = [_written(model, [prompt], config, options) for prompt in prompts]
        padding = config.pad_token_id
        return [rows if len(rows) == 1 else [_unpadded(ids, ends, padding) for ids in rows] for rows in each]

    def work(places: list[int]) -> list[list[list[int]]]:
        return [[until_end(ids, ends)] for ids in _together(model, [prompts[i] for i in places], config)]

    return map_batches(model, prompts, work, share=2)  # keys and values are kept


def _together(model: TaskModel, prompts: Sequence[Encoding], config: GenerationConfig) -> list[list[int]]:
    """Return the tokens generated after each prompt, in a batch if a trial shows that each gets the same as alone.

    The trial is made afterwards, for then it is known how long the texts have become: a rotary embedding that stretches
    does so at some length of prompt and completion.
    """
    if len(prompts) > 1:
        lengths = {len(prompt) for prompt in prompts}
        proved = model.copy.writes_padded if len(lengths) > 1 else model.copy.writes_together
        if not proved.refuted:
            written = _written(model, prompts, config, {})
            if _same_as_alone(model, prompts, max(lengths) + len(written[0]), proved):
                return written
        by_index: dict[int, list[int]] = {}
        for group in _by_length(prompts) if len(lengths) > 1 else ([index] for index in range(len(prompts))):
            by_index.update(zip(group, _together(model, [prompts[index] for index in group], config), strict=True))
        return [by_index[index] for index in range(len(prompts))]
    return _written(model, prompts, config, {})


def _written(
    model: TaskModel, prompts: Sequence[Encoding], config: GenerationConfig, options: Mapping[str, Any]
) -> list[list[int]]:
    """Return the tokens generated after each prompt, padded to one length."""
    texts = [prompt.ids if prompt.source is None else prompt.source.ids for prompt in prompts]
    media_inputs = model.batch(prompts, [0]).inputs if prompts[0].media else {}
    output = _generated(model, texts, config, options, media_inputs)
    start = 0 if prompts[0].source is not None else max(map(len, prompts))
    written: list[list[int]] = getattr(output, "sequences", output)[:, start:].tolist()
    return written


def _generated(
    model: TaskModel,
    texts: Sequence[list[int]],
    config: GenerationConfig,
    options: Mapping[str, Any],
    media_inputs: Mapping[str, Tensor] | None = None,
) -> Any:
    """Return what the model's own `generate` returns for token ids of prompts, padded on the left, or of one source."""
    longest = max(map(len, texts))
    ids = torch.tensor([[model.pad_id] * (longest - len(t)) + t for t in texts], device=model.device)  # (B, P)
    mask = torch.tensor([[0] * (longest - len(t)) + [1] * len(t) for t in texts], device=model.device)  # (B, P)
    writer: Any = private_clone(model.copy.reference)
    inputs = {**(media_inputs or {}), "input_ids": ids, "attention_mask": mask}
    with reading(writer, inputs, doing="continue"):
        return writer.generate(**inputs, generation_config=config, **options)


def _plain(config: GenerationConfig) -> bool:
    """Return whether the settings are those of greedy generation and nothing else."""
    changed = {name for name, value in config.to_diff_dict().items() if value and not (name in ONE and value == 1)}
    return changed <= HARMLESS


def end_ids(config: GenerationConfig) -> set[int]:
    """Return the end-of-sequence tokens."""
    ends = config.eos_token_id
    return set() if ends is None else {int(ends)} if isinstance(ends, int) else {int(i) for i in ends}


def until_end(ids: list[int], ends: set[int]) -> list[int]:
    """Return a row up to its end-of-sequence token; the rest is padding."""
    for index, token in enumerate(ids):
        if token in ends:
            return ids[: index + 1]
    return ids


def _unpadded(ids: list[int], ends: set[int], padding: int | None) -> list[int]:
    """Return one of several sequences without its padding; a decoder may begin with the token that ends."""
    kept = ids[:1] + until_end(ids[1:], ends)
    while len(kept) > 1 and kept[-1] == padding and padding not in ends:
        kept.pop()
    return kept


def _by_length(prompts: Sequence[Encoding]) -> Iterator[list[int]]:
    """Yield the indices of the prompts of each length."""
    for length in sorted({len(prompt) for prompt in prompts}):
        yield [index for index, prompt in enumerate(prompts) if len(prompt) == length]


def _same_as_alone(model: TaskModel, prompts: Sequence[Encoding], reached: int, proved: ProvedLengths) -> bool:
    """Compare generation in a batch and alone, once for all lengths between the shortest and the one reached."""
    shortest, longest = min(prompts, key=len).ids, max(map(len, prompts))
    last = max(longest, reached - STEPS)
    if proved.covers(len(shortest), last):
        return True
    if len(shortest) < longest:
        by_length = {len(prompt): prompt.ids for prompt in prompts}
        trials = [by_length[length] for length in lengths_to_try(by_length)]
    else:
        trials = [shortest + [model.filler] * (last - longest)]
    try:
        same = result_or_none(lambda: all(_same_beside(model, ids, last) for ids in trials))
    except InputError:  # the token that fills need not make a text that the model reads
        same = False
    if same:
        proved.add(len(shortest), last)
    proved.refuted = same is False  # without memory for the trial, nothing is known
    return bool(same)


def _same_beside(model: TaskModel, ids: list[int], length: int) -> bool:
    """Return whether a prompt's next-token logits are the same alone and in a batch with a text of some length."""
    return prompts_are_continued_as_alone(
        _first_logits(model, [ids]), _first_logits(model, [ids, [model.filler] * length])
    )


def _first_logits(model: TaskModel, texts: Sequence[list[int]]) -> Tensor:
    """Return the logits of the first two tokens generated after the first of some prompts, (2, V)."""
    config = GenerationConfig(
        max_new_tokens=STEPS,
        min_new_tokens=STEPS,
        do_sample=False,
        pad_token_id=model.pad_id,
        output_logits=True,
        return_dict_in_generate=True,
    )
    return torch.stack([logits[0] for logits in _generated(model, texts, config, {}).logits])  # (2, V)
