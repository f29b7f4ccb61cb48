"""What a model generates after prompts, by its own `generate`; in a batch each prompt gets the tokens it gets alone."""

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import GenerationConfig
from transformers.utils.generic import ModelOutput

from ..compat import generation_state, without_model_defaults
from ..copies.module_io import TensorInputs, as_batch
from ..copies.pool import private_clone
from ..copies.precision import full_float32
from ..copies.run import Site, run
from ..errors import InputError, UnsupportedModelError
from ..inputs.encoding import Encoding
from ..parts.embeddings import decoder_table
from ..parts.proofs import cache_changes_nothing, prompts_are_continued_as_alone
from ..tasks.base import GenerateSettings
from .batch_attempts import results_in_batches
from .model_errors import input_errors
from .proved_lengths import lengths_to_try
from .task_model import TaskModel

Rows = list[list[int]]
"""The token ids of several sequences."""

PADDING_SAFE = {
    "_from_model_config", "transformers_version", "use_cache", "max_new_tokens", "min_new_tokens", "early_stopping",
    "bos_token_id", "decoder_start_token_id", "eos_token_id", "pad_token_id",
    "length_penalty", "temperature", "top_k", "top_p",
}  # fmt: skip
"""Settings of greedy generation that padding does not affect; repetition penalties count padding as text."""

NEUTRAL_AT_ONE = {
    "num_beams", "num_beam_groups", "num_return_sequences", "repetition_penalty", "encoder_repetition_penalty"
}  # fmt: skip
"""Settings that have no effect at 1; all others have none if they are unset, false or 0."""

TRIAL_STEPS = 2  # tokens that a trial generates: one after the prompt, and one with the cache
TRIAL_PROMPT = 4  # tokens of a prompt in the trial of the cache: too few for a rotary embedding to stretch


def generated_ids(
    model: TaskModel, prompts: Sequence[Encoding], config: GenerationConfig, options: GenerateSettings
) -> list[Rows]:
    """Return the sequences generated after each prompt.

    Args:
        model: A model that generates.
        prompts: The prompts.
        config: The settings of generation; its padding id is set.
        options: Further arguments of the model's `generate`, which no configuration holds.

    Returns:
        For each prompt the ids of its sequences, one or more, each up to its end; of an encoder-decoder model, all ids
        of the decoder.

    Raises:
        InputError: If the model cannot continue a prompt, or memory runs out with a single one.
    """
    generator = _Generator(model, config, options)
    # Only greedy generation after texts is known to be the same where they are padded.
    if len(prompts) == 1 or options or not all(map(_is_text, prompts)) or not _is_plain_greedy(config):
        return [generator.alone(prompt) for prompt in prompts]

    def generate(indices: list[int]) -> Rows:
        return generator.together([prompts[index] for index in indices])

    # The cache of keys and values takes as much memory again.
    return [[ids] for ids in results_in_batches(model, prompts, generate, memory_factor=2)]


def _is_text(prompt: Encoding) -> bool:
    """Return whether a prompt is a text alone, without a source or media."""
    return not (prompt.source or prompt.media)


class _Generator(NamedTuple):
    """Calls a model's own `generate` with one configuration."""

    model: TaskModel
    config: GenerationConfig
    options: GenerateSettings = MappingProxyType({})  # further arguments

    def alone(self, prompt: Encoding) -> Rows:
        """Return the sequences generated after a prompt; several are padded to one length, and cut to their own."""
        rows = self._sequences([prompt])
        if len(rows) == 1:
            return rows
        return [_without_padding(ids, end_ids(self.config), self.config.pad_token_id) for ids in rows]

    def together(self, prompts: Sequence[Encoding]) -> Rows:
        """Return what is generated after each prompt, in a batch if a trial shows the same as alone.

        The trial comes afterwards, when the final length is known: a rotary embedding may stretch from some length on.
        """
        if len(prompts) > 1 and not self.model.copy.generates_batched.refuted:
            generated = self._sequences(prompts)  # of one length, with padding
            if _same_as_alone(self.model, prompts, max(map(len, prompts)) + len(generated[0])):
                return [until_end(ids, end_ids(self.config)) for ids in generated]
        return [self._sequences([prompt])[0] for prompt in prompts]

    def _sequences(self, prompts: Sequence[Encoding]) -> Rows:
        """Return the generated sequences, those of several prompts padded to one length."""
        texts = [(prompt.source or prompt).ids for prompt in prompts]
        # A prompt with media is continued alone; of prompts in a batch all are texts.
        media_inputs = self.model.batch(prompts).inputs if prompts[0].media else {}
        output = self.call(texts, media_inputs)
        # A prompt stands before what is generated; of an encoder-decoder model the whole sequence is the decoder's.
        start = max(map(len, texts)) if prompts[0].source is None else 0
        # It is an object with `sequences` where the settings ask for more than these.
        return getattr(output, "sequences", output)[:, start:].tolist()

    def call(self, texts: Rows, media_inputs: TensorInputs = MappingProxyType({})) -> Any:
        """Return what `generate` returns for the token ids of prompts, padded on the left, or of one source.

        Args:
            texts: The token ids.
            media_inputs: The inputs that hold the media of a prompt.
        """
        model = self.model
        padding_counts = [max(map(len, texts)) - len(ids) for ids in texts]
        rows = [[model.pad_id] * count + ids for count, ids in zip(padding_counts, texts, strict=True)]
        ids = torch.tensor(rows, device=model.device)  # (B, P)
        positions = torch.arange(ids.shape[1], device=model.device)  # (P,)
        first_positions = torch.tensor(padding_counts, device=model.device)  # (B,), of the prompts' own tokens
        mask = (positions >= first_positions[:, None]).long()  # (B, P)
        inputs = {**media_inputs, "input_ids": ids, "attention_mask": mask}
        copy: Any = private_clone(model.unmodified)
        with input_errors(copy, inputs, doing="continue"):
            return copy.generate(**inputs, generation_config=self.config, **without_model_defaults(), **self.options)


def generated_from(
    model: TaskModel, inputs: TensorInputs, config: GenerationConfig, options: GenerateSettings
) -> tuple[list[int], list[int]]:
    """Return what a decoder generates of an input that is not token ids, such as a sound.

    Args:
        model: A model with an encoder, which reads the input, and a decoder.
        inputs: What the encoder reads, by name, without the batch axis.
        config: The settings of generation.
        options: Further arguments of the model's `generate`.

    Returns:
        The token ids with which the decoder begins, and those that it generates.

    Raises:
        InputError: If the model cannot read the input.
        UnsupportedModelError: If its decoder names no table of word embeddings.
    """
    copy: Any = private_clone(model.unmodified)
    # The decoder first embeds the ids that it begins with; later calls of the loop embed generated tokens.
    first_call = Site(decoder_table(copy), call=1, is_input=True)
    batch = as_batch(inputs, model.device)
    with torch.no_grad(), input_errors(copy, batch, doing="answer"):
        recorded_pass = run(
            copy,
            batch,
            record=[first_call],
            call=partial(copy.generate, generation_config=config, **without_model_defaults(), **options),
        )
    ids: list[int] = getattr(recorded_pass.output, "sequences", recorded_pass.output)[0].tolist()
    first_ids: list[int] = recorded_pass.recorded[first_call][0].tolist()
    if ids[: len(first_ids)] == first_ids:  # some models return the generated tokens alone
        ids = ids[len(first_ids) :]
    return first_ids, ids


def inputs_of_generated(model: TaskModel, inputs: Mapping[str, Sequence[int]], count: int) -> dict[str, list[int]]:
    """Return inputs along the tokens of a prompt, as `generate` continues them for so many generated tokens.

    The model's own method continues them, as `generate` calls it after each token: classes differ in how.

    Args:
        model: A model that generates.
        inputs: The inputs of the prompt beside its token ids, a value for each token.
        count: How many tokens follow.

    Returns:
        A value for each token of prompt and answer; without inputs that `generate` does not continue.
    """
    unmodified: Any = model.unmodified
    prompt_length = max(map(len, inputs.values()))  # all have it: a value for each token
    state = {name: torch.tensor([values]) for name, values in inputs.items()} | generation_state(prompt_length)
    for _ in range(count):  # an empty output, without a cache: only the inputs are continued
        state = unmodified._update_model_kwargs_for_generation(ModelOutput(), state)
    continued = {name: state[name][0].tolist() for name in inputs}
    return {name: values for name, values in continued.items() if len(values) == prompt_length + count}


def _is_plain_greedy(config: GenerationConfig) -> bool:
    """Return whether the settings are those of greedy generation and nothing else."""
    # What has transformers' default is left out already.
    in_effect = {
        name for name, value in config.to_diff_dict().items() if value and (name not in NEUTRAL_AT_ONE or value != 1)
    }
    return in_effect <= PADDING_SAFE


def end_ids(config: GenerationConfig) -> set[int]:
    """Return the end-of-sequence tokens, of which a configuration has one, several or none."""
    ends = config.eos_token_id
    if ends is None:
        return set()
    return {ends} if isinstance(ends, int) else set(map(int, ends))


def until_end(ids: list[int], ends: set[int]) -> list[int]:
    """Return token ids up to the first end-of-sequence token; only padding follows it.

    Args:
        ids: A generated sequence.
        ends: The end-of-sequence tokens.

    Returns:
        The sequence with its end-of-sequence token, or all of it if it has none.
    """
    end = next((index for index, token in enumerate(ids) if token in ends), len(ids))
    return ids[: end + 1]


def _without_padding(ids: list[int], ends: set[int], padding: int | None) -> list[int]:
    """Return a generated sequence without its padding; it may begin with the end-of-sequence token, as BART's does."""
    unpadded = ids[:1] + until_end(ids[1:], ends)
    # Where the padding is an end-of-sequence token, it has been cut already.
    while len(unpadded) > 1 and unpadded[-1] == padding and padding not in ends:
        unpadded.pop()
    return unpadded


def _same_as_alone(model: TaskModel, prompts: Sequence[Encoding], final_length: int) -> bool:
    """Return whether prompts get the same logits in a batch as alone; lengths that are not proved yet are tried.

    Args:
        model: A model that generates.
        prompts: The prompts.
        final_length: The tokens of the longest prompt with what was generated after it.
    """
    proved = model.copy.generates_batched
    ids_of_length = {len(prompt): prompt.ids for prompt in prompts}  # any prompt of each length
    shortest, longest = min(ids_of_length), max(ids_of_length)
    trial_length = max(longest, final_length - TRIAL_STEPS)  # a trial generates tokens after it
    if proved.covers(shortest, trial_length):
        return True
    # `lengths_to_try` needs two different lengths.
    if shortest < longest:
        trial_prompts = [ids_of_length[length] for length in lengths_to_try(ids_of_length)]
    else:  # two equally long texts, as long as at the end of the generation
        trial_prompts = [ids_of_length[shortest] + [model.filler] * (trial_length - longest)]
    return proved.prove(shortest, trial_length, partial(_same_beside_longer, model, trial_prompts, trial_length))


@full_float32()
def _same_beside_longer(model: TaskModel, prompts: Rows, length: int) -> bool:
    """Return whether the next logits of prompts are the same alone and in a batch with a text of `length` tokens."""
    longer = [model.filler] * length
    try:
        return all(
            prompts_are_continued_as_alone(_trial_logits(model, [ids]), _trial_logits(model, [ids, longer]))
            for ids in prompts
        )
    except InputError:  # the token that fills need not make a text that the model reads
        return False


def _trial_logits(model: TaskModel, texts: Rows, **settings: Any) -> Tensor:
    """Return the logits of the next two tokens after the first of some prompts, (2, V)."""
    # Both steps are taken even if the first token ends a text.
    steps = {"max_new_tokens": TRIAL_STEPS, "min_new_tokens": TRIAL_STEPS, "do_sample": False, **settings}
    config = GenerationConfig(**steps, pad_token_id=model.pad_id, output_logits=True, return_dict_in_generate=True)
    return torch.stack([logits[0] for logits in _Generator(model, config).call(texts).logits])


@torch.inference_mode()
def check_cache(model: TaskModel, prompt: Encoding) -> None:
    """Refuse a model that answers a text otherwise with the cache of `generate` than in a pass over all of it.

    Args:
        model: A language model.
        prompt: A prompt, whose first tokens are continued.

    Raises:
        UnsupportedModelError: If the second token of a short generation has other logits with the cache.
    """
    can_try = hasattr(model.unmodified, "generate") and _is_text(prompt)
    if model.copy.cache_proved or not can_try:  # without a trial nothing speaks against it
        return
    ids = prompt.ids[:TRIAL_PROMPT]
    try:
        with full_float32():
            cached = _trial_logits(model, [ids], use_cache=True)  # (2, V)
            anew = _trial_logits(model, [ids], use_cache=False)  # (2, V)
    except InputError:  # it does not continue so short a prompt
        return
    if not cache_changes_nothing(cached, anew):
        raise UnsupportedModelError(
            f"{model.name} reads the beginning of a text otherwise once more follows, and `generate` keeps what it "
            "read at first: a pass over prompt and answer is not what generated it, and cannot explain it"
        )
    model.copy.cache_proved = True
