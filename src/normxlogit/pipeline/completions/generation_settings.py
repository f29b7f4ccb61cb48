"""The settings with which a model generates: of the call, of its pipeline and its own, as one."""

import copy
from collections.abc import Set
from typing import Any

import torch
from transformers import GenerationConfig

from ...errors import InputError
from ...inputs.texts import checked_whole_number, positive_integer
from ...model.task_model import TaskModel
from ...results.storage.schema import Strings
from ...tasks.base import GenerateSettings

DECODER_IDS = "decoder_input_ids"
"""The argument of `generate` with which a decoder beside an encoder begins."""

PROMPT_INPUTS = {
    "attention_mask", DECODER_IDS, "encoder_outputs", "input_features", "input_ids", "inputs", "inputs_embeds",
    "past_key_values", "pixel_values",
}  # fmt: skip
"""Arguments of `generate` that hold a prompt."""

DEFAULT_NEW_TOKENS = 40
"""How many tokens are generated at most, where no setting says it."""

GREEDY = "generated greedily, where the model's own settings sample; do_sample=True samples"


def merged_settings(model: TaskModel, called: GenerateSettings) -> dict[str, Any]:
    """Return the settings of `generate` that a call gives, with those of the pipeline that the model came with."""
    model_settings = _configured(getattr(model.module, "generation_config", None))
    return model.pipeline.generation.of_call(called, model_settings)


def _configured(config: Any) -> dict[str, Any]:
    """Return what a configuration of `generate` sets to other values than transformers does."""
    return config.to_diff_dict() if isinstance(config, GenerationConfig) else {}


def sampling_note(model: TaskModel, settings: GenerateSettings) -> Strings:
    """Return a note if the model, or the pipeline it came in, samples by default and no setting says whether to.

    Args:
        model: A model that generates.
        settings: The settings of the call, with those that its pipeline was made with; see `merged_settings`.
    """
    call_settings = {**_configured(settings.get("generation_config")), **settings}
    if call_settings.get("do_sample") is not None:
        return ()
    config = getattr(model.module, "generation_config", None)
    would_sample = model.pipeline.generation.samples or getattr(config, "do_sample", False)
    return (GREEDY,) if would_sample else ()


def most_new_tokens(model: TaskModel, options: GenerateSettings, before: int) -> int:
    """Return the maximal number of generated tokens.

    `max_new_tokens` goes before `max_length`, and both before those of a `generation_config`: that of the call, and
    then the model's own.

    Args:
        model: A model that generates.
        options: Those of `merged_settings`.
        before: The number of tokens before the generated ones, which `max_length` counts, as in transformers.

    Raises:
        InputError: If the setting is not a positive number, or leaves no room.
    """
    configs = options.get("generation_config"), getattr(model.module, "generation_config", None)
    for settings in (options, *map(_configured, configs)):
        if settings.get("max_new_tokens") is not None:
            return positive_integer(settings["max_new_tokens"], "max_new_tokens")
        if settings.get("max_length") is not None:
            length = positive_integer(settings["max_length"], "max_length")
            if length <= before:
                raise InputError(
                    f"max_length={length} leaves no room: {before} tokens stand before the answer; pass max_new_tokens="
                )
            return length - before
    return DEFAULT_NEW_TOKENS


def generation_config(
    model: TaskModel, options: GenerateSettings, room: int
) -> tuple[GenerationConfig, dict[str, Any]]:
    """Return the generation settings, greedy unless sampling is requested, and the remaining options.

    Args:
        model: A model that generates.
        options: Those of `merged_settings`.
        room: The most tokens to generate.

    Raises:
        InputError: If a setting is made of the prompt, or settings do not go together.
    """
    has_encoder = model.copy.decoder_limit is not None  # then the decoder's first tokens are not the prompt
    _check_no_prompt(PROMPT_INPUTS - {DECODER_IDS} if has_encoder else PROMPT_INPUTS, options)
    settings = dict(options)
    if settings.get(DECODER_IDS) is not None:
        settings[DECODER_IDS] = torch.tensor([decoder_ids(options)], device=model.device)  # (1, D)
    of_call = settings.pop("generation_config", None)
    config = _merged_config(of_call, model.module.generation_config)
    if not settings.get("do_sample", getattr(of_call, "do_sample", False)):
        # The model's configuration often sets these three, and transformers would warn that they are not used.
        settings |= {"do_sample": False, "temperature": None, "top_p": None, "top_k": None}
    if config.pad_token_id is None:
        config.pad_token_id = model.pad_id
    config.max_length = None  # in `room` already
    settings.pop("max_length", None)
    settings["max_new_tokens"] = room
    if settings.get("stop_strings") or config.stop_strings:  # which `generate` finds by the tokenizer
        settings.setdefault("tokenizer", model.tokenizer)
    try:  # what is no setting of a configuration is given to `generate` as it is
        unused_settings = config.update(**settings)
        return config, unused_settings
    except ValueError as error:  # settings that do not go together, such as several sequences of greedy search
        raise InputError(f"generate: {str(error).strip().splitlines()[0]}") from None


def _check_no_prompt(prompt_inputs: Set[str], options: GenerateSettings) -> None:
    """Refuse arguments of `generate` that hold a prompt."""
    for name in sorted(prompt_inputs):  # a set has another order in each process, and the error should not
        if options.get(name) is not None:
            raise InputError(f"generate: {name}= is made of the prompt; leave it out")


def _merged_config(of_call: Any, of_model: Any) -> GenerationConfig:
    """Return a copy of the configuration of a call; what it leaves open is the model's, as `generate` has it."""
    config = copy.deepcopy(of_call or of_model or GenerationConfig())
    if not isinstance(config, GenerationConfig):
        raise InputError(f"generation_config must be a GenerationConfig of transformers, not {type(config).__name__}")
    for name in _configured(of_model).keys() - _configured(config).keys():
        setattr(config, name, getattr(of_model, name))
    return config


def decoder_ids(options: GenerateSettings) -> list[int]:
    """Return the token ids with which a call lets a decoder beside an encoder begin; none if it does not say it."""
    ids = options.get(DECODER_IDS)
    if ids is None:
        return []
    return row_of_ids(ids, f"{DECODER_IDS}= is a row of token ids for all prompts")


def row_of_ids(values: Any, expected: str) -> list[int]:
    """Return token ids as plain numbers, of a row or of the only row of a table, as cut out of what `generate` returns.

    Args:
        values: What the caller gave.
        expected: What it should be, for the error.

    Raises:
        InputError: If these are not whole numbers in a row.
    """
    try:
        if isinstance(values, bytes):  # whose items are numbers, too
            raise TypeError
        numbers = list(values)
        if len(numbers) == 1 and (isinstance(numbers[0], list) or getattr(numbers[0], "ndim", 0) == 1):
            numbers = numbers[0]
        return [checked_whole_number(number) for number in numbers]
    except (TypeError, RuntimeError):  # also of a tensor of several rows, of floats, or without an axis
        raise InputError(f"{expected}, not {type(values).__name__}") from None
