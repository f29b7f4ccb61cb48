"""Letting a language model continue several prompts at once, where each gets the tokens that it gets alone."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig

from ..inputs.encoding import Encoding
from ..surgery.isolated import private_clone
from ..surgery.same_answer import tolerance_for
from .map_batches import STATES_AGREE, map_batches
from .proof import reading
from .seq2seq import Seq2SeqModel
from .task_model import TaskModel

__all__ = ["write_each"]

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


def write_each(
    model: TaskModel, prompts: Sequence[Encoding], config: GenerationConfig, options: Mapping[str, Any]
) -> list[list[int]]:
    """Let a model continue prompts, and return the token ids that it wrote after each.

    Greedy prompts of like lengths go together, padded on the left, after a trial that what the model finds likely
    after a padded prompt is what it finds likely after the prompt alone. All others go one at a time.

    Args:
        model: The model.
        prompts: The prompts.
        config: Settings of generation.
        options: Arguments of `generate` that are no settings.
    """
    if len(prompts) == 1 or options or isinstance(model, Seq2SeqModel) or not _plain(config):
        return [_written(model, [prompt], config, options)[0] for prompt in prompts]
    ends = _ends(config)
    padded = len({len(p) for p in prompts}) == 1 or _same_beside(model, prompts)

    def work(places: list[int]) -> list[list[int]]:
        chosen = [prompts[i] for i in places]
        groups = [chosen] if padded else list(_by_length(chosen))
        written = {
            id(p): ids for group in groups for p, ids in zip(group, _written(model, group, config, {}), strict=True)
        }
        return [_until(written[id(prompt)], ends) for prompt in chosen]

    return map_batches(model, prompts, work, share=2)  # keys and values are kept


def _written(
    model: TaskModel, prompts: Sequence[Encoding], config: GenerationConfig, options: Mapping[str, Any]
) -> list[list[int]]:
    """Return what a model writes after each prompt, all of one length: padding after the end of shorter ones."""
    found = _generated(model, prompts, config, options)
    start = 1 if isinstance(model, Seq2SeqModel) else max(map(len, prompts))
    written: list[list[int]] = getattr(found, "sequences", found)[:, start:].tolist()
    return written


def _generated(
    model: TaskModel, prompts: Sequence[Encoding], config: GenerationConfig, options: Mapping[str, Any]
) -> Any:
    """Return what the model's own `generate` returns for prompts, padded on the left, or for one source.

    Raises:
        InputError: If `generate` does not take the options, or fails on the prompts.
    """
    texts = [list(p.ids if p.source is None else p.source.ids) for p in prompts]
    longest = max(map(len, texts))
    ids = torch.tensor([[model.pad_id] * (longest - len(t)) + t for t in texts], device=model.device)  # (B, P)
    mask = torch.tensor([[0] * (longest - len(t)) + [1] * len(t) for t in texts], device=model.device)  # (B, P)
    writer: Any = private_clone(model.copy.reference)
    given = {"input_ids": ids, "attention_mask": mask}
    with reading(writer, given, doing="continue"):
        return writer.generate(**given, generation_config=config, **options)


def _plain(config: GenerationConfig) -> bool:
    """Return whether the settings are those of greedy generation and nothing else."""
    given = {name for name, value in config.to_diff_dict().items() if value and not (name in ONE and value == 1)}
    return given <= HARMLESS


def _ends(config: GenerationConfig) -> set[int]:
    found = config.eos_token_id
    return set() if found is None else {int(found)} if isinstance(found, int) else {int(i) for i in found}


def _until(ids: list[int], ends: set[int]) -> list[int]:
    """Return what a row holds up to its end-of-sequence token; what follows waited for the others."""
    for place, token in enumerate(ids):
        if token in ends:
            return ids[: place + 1]
    return ids


def _by_length(prompts: Sequence[Encoding]) -> Iterator[list[Encoding]]:
    for length in sorted({len(prompt) for prompt in prompts}):
        yield [prompt for prompt in prompts if len(prompt) == length]


def _same_beside(model: TaskModel, prompts: Sequence[Encoding]) -> bool:
    """Try the shortest prompt beside the longest one, once for each model."""
    if model.copy.writes_padded is None:
        order = sorted(prompts, key=len)
        alone, beside = _first_logits(model, order[:1]), _first_logits(model, [order[0], order[-1]])
        model.copy.writes_padded = _agree(alone, beside)
    return model.copy.writes_padded


def _first_logits(model: TaskModel, prompts: Sequence[Encoding]) -> Tensor:
    """Return the logits of the first two tokens that are written after the first of some prompts, (2, V)."""
    config = GenerationConfig(
        max_new_tokens=2,
        min_new_tokens=2,
        do_sample=False,
        pad_token_id=model.pad_id,
        output_logits=True,
        return_dict_in_generate=True,
    )
    return torch.stack([logits[0] for logits in _generated(model, prompts, config, {}).logits])  # (2, V)


def _agree(alone: Tensor, beside: Tensor) -> bool:
    """Return whether two steps of logits are the same, (2, V) each; the second as far as the first chose alike."""
    if not torch.equal(alone[0].argmax(), beside[0].argmax()):
        return False
    difference = (alone.float() - beside.float()).abs()
    difference = difference[torch.isfinite(difference)]
    return bool(difference.max() <= max(tolerance_for(alone), STATES_AGREE * float(alone.abs().max())))
