"""What a model generates after a prompt, by its own `generate`."""

from collections.abc import Mapping
from typing import Any

import torch
from transformers import GenerationConfig

from ..copies.pool import private_clone
from ..inputs.encoding import Encoding
from .model_copy import input_errors
from .task_model import TaskModel


def generated_ids(
    model: TaskModel, prompt: Encoding, config: GenerationConfig, options: Mapping[str, Any]
) -> list[list[int]]:
    """Return the ids of each sequence generated after a prompt; of an encoder-decoder model, all ids of the decoder."""
    source = prompt.source
    ids = torch.tensor([prompt.ids if source is None else source.ids], device=model.device)  # (1, P)
    media_inputs = model.batch([prompt], [0]).inputs if prompt.media else {}
    inputs = {**media_inputs, "input_ids": ids, "attention_mask": torch.ones_like(ids)}
    copy: Any = private_clone(model.copy.unmodified)
    with input_errors(copy, inputs, doing="continue"):
        output = copy.generate(**inputs, generation_config=config, **options)
    sequences = getattr(output, "sequences", output)[:, 0 if source is not None else ids.shape[1] :].tolist()
    if len(sequences) == 1:
        return sequences  # type: ignore[no-any-return]
    return [_without_padding(row, end_ids(config), config.pad_token_id) for row in sequences]


def end_ids(config: GenerationConfig) -> set[int]:
    """Return the end-of-sequence tokens."""
    ends = config.eos_token_id
    return set() if ends is None else {int(ends)} if isinstance(ends, int) else {int(token) for token in ends}


def until_end(ids: list[int], ends: set[int]) -> list[int]:
    """Return token ids up to the first end-of-sequence token; only padding follows it."""
    end = next((index for index, token in enumerate(ids) if token in ends), len(ids))
    return ids[: end + 1]


def _without_padding(ids: list[int], ends: set[int], padding: int | None) -> list[int]:
    """Return a generated sequence without its padding; it may begin with the end-of-sequence token, as BART's does."""
    unpadded = ids[:1] + until_end(ids[1:], ends)
    while len(unpadded) > 1 and unpadded[-1] == padding and padding not in ends:
        unpadded.pop()
    return unpadded
