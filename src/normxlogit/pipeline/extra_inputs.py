"""How a module of the caller's is called, and what it reads beside the texts."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

import torch
from torch import Tensor

from ..copies.forward_arguments import ForwardSettings
from ..copies.normalisers import Outputs
from ..errors import InputError, check_choice
from ..inputs.encoding import Encoding
from ..inputs.texts import plain_cell

TOKENIZER_OUTPUTS = ("input_ids", "attention_mask", "token_type_ids", "position_ids")
"""The outputs of a tokenizer that a forward may have other names for."""


def forward_settings(
    outputs: Any, output_field: Any, input_names: Mapping[str, str] | None, extra_inputs: Mapping[str, Any] | None
) -> ForwardSettings:
    """Return the checked settings of how a module is called and what it returns.

    Args:
        outputs: What the numbers are that it returns, one of `Outputs`; None to find out.
        output_field: The name or the index of the field of its output that holds them; None to find it.
        input_names: What its forward calls the outputs of a tokenizer, by their names in `TOKENIZER_OUTPUTS`.
        extra_inputs: What it reads beside the texts, by name: the values of a text that is given none of its own.

    Raises:
        InputError: If one of these is not such a choice or name, or a default is not made of numbers.
    """
    check_choice("outputs", outputs, get_args(Outputs))
    names = dict(input_names or {})
    unknown_names = [name for name in names if name not in TOKENIZER_OUTPUTS]
    if unknown_names:
        raise InputError(
            f"input_names= says how the forward calls {', '.join(TOKENIZER_OUTPUTS)}, and none of them is "
            f"{unknown_names[0]!r}: "
            "input_names={'input_ids': 'sent_id'}; what a tokenizer does not return is given by extra_inputs="
        )
    defaults = {name: _as_batch(value, name) for name, value in (extra_inputs or {}).items()}
    return ForwardSettings(outputs, output_field, input_names=names, extra_inputs=defaults)


def with_extra_inputs(
    encodings: list[Encoding], given: Mapping[str, Any], defaults: Mapping[str, Tensor], *, single: bool
) -> list[Encoding]:
    """Return encodings with what the caller gave beside each text.

    Args:
        encodings: The texts.
        given: A value for each text, or the value of a single one, by the names of the inputs.
        defaults: The explainer's defaults by name, (1, ...) each, whose shapes and types the values must have.
        single: Whether there is one text, which the caller gave alone.

    Raises:
        InputError: If there is no such input, or a value does not fit.
    """
    inputs_of_texts: list[dict[str, Tensor]] = [{} for _ in encodings]
    for name, values in given.items():
        if name not in defaults:
            known = f"it was made with {', '.join(defaults) or 'none'}"
            raise InputError(f"the explainer has no extra input {name!r}: {known}; Explainer(..., extra_inputs=...)")
        of_texts: Sequence[Any] = [values] if single else list(values)  # of a single text they may be an array
        if len(of_texts) != len(encodings):
            raise InputError(f"extra_inputs: {len(of_texts)} values of {name!r} for {len(encodings)} texts")
        for extra_inputs, value in zip(inputs_of_texts, of_texts, strict=True):
            extra_inputs[name] = _as_default(name, value, defaults[name])
    return [
        replace(encoding, extra_inputs=extra_inputs)
        for encoding, extra_inputs in zip(encodings, inputs_of_texts, strict=True)
    ]


def _as_default(name: str, value: Any, default: Tensor) -> Tensor:
    """Return the value of one text, (1, ...), of the shape and type of the default."""
    tensor = _as_batch(value, name)
    # A whole number may stand for a float; a float would lose its digits as a whole number.
    if tensor.is_floating_point() and not default.is_floating_point():
        raise InputError(f"extra_inputs: {name!r} is a whole number in the explainer, and {value!r} is given")
    if tensor.shape != default.shape:
        raise InputError(
            f"extra_inputs: {name!r} is of shape {tuple(tensor.shape[1:])} for a text, and "
            f"{tuple(default.shape[1:])} in the explainer"
        )
    return tensor.to(default.dtype)


def _as_batch(value: Any, name: str) -> Tensor:
    """Return the value of one text as a tensor with the axis of a batch, (1, ...)."""
    try:
        tensor = value.detach() if isinstance(value, Tensor) else torch.as_tensor(plain_cell(value))
    except (TypeError, ValueError, RuntimeError):
        raise InputError(f"extra_inputs: {name!r} must be a number, or an array of numbers, for each text") from None
    return tensor[None]
