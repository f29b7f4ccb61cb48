"""Inputs beside a text: what a model's forward needs that no tokenizer makes, such as numeric features."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

import torch
from torch import Tensor

from ..copies.answers import ForwardSettings, Outputs
from ..errors import InputError
from ..inputs.encoding import Encoding
from ..inputs.texts import plain_cell

NAMES = ("input_ids", "attention_mask", "token_type_ids", "position_ids")
"""The outputs of a tokenizer that a forward may have other names for."""


def forward_settings(
    outputs: Any, output_field: Any, input_names: Mapping[str, str] | None, extra_inputs: Mapping[str, Any] | None
) -> ForwardSettings:
    """Return the checked settings of how a module is called and what it returns."""
    if outputs not in (None, *get_args(Outputs)):
        raise InputError(f"outputs must be one of {', '.join(get_args(Outputs))}, not {outputs!r}")
    names, extra = dict(input_names or {}), dict(extra_inputs or {})
    if wrong := [name for name in names if name not in NAMES]:
        raise InputError(
            f"input_names= says how the forward calls {', '.join(NAMES)}, and none of them is {wrong[0]!r}: "
            "input_names={'input_ids': 'sent_id'}; what is no output of a tokenizer is given by extra_inputs="
        )
    return ForwardSettings(outputs, output_field, names, {name: _row(value, name) for name, value in extra.items()})


def with_extra_inputs(
    encodings: list[Encoding], given: Mapping[str, Any], defaults: Mapping[str, Tensor], *, single: bool
) -> list[Encoding]:
    """Return encodings with what the caller gave beside each text.

    Args:
        defaults: The values of a text that is given none, (1, ...) each.
    """
    rows: list[dict[str, Tensor]] = [{} for _ in encodings]
    for name, values in given.items():
        if name not in defaults:
            known = f"it was made with {', '.join(defaults)}" if defaults else "it was made without any"
            raise InputError(f"the explainer has no extra input {name!r}: {known}; Explainer(..., extra_inputs=...)")
        of_texts: Sequence[Any] = [values] if single else list(values)
        if len(of_texts) != len(encodings):
            raise InputError(f"extra_inputs: {len(of_texts)} values of {name!r} for {len(encodings)} texts")
        for row, value in zip(rows, of_texts, strict=True):
            row[name] = _row(value, name).to(defaults[name].dtype)
            if row[name].shape != defaults[name].shape:
                raise InputError(
                    f"extra_inputs: {name!r} is of shape {tuple(row[name].shape[1:])} for a text, and "
                    f"{tuple(defaults[name].shape[1:])} in the explainer"
                )
    return [replace(encoding, extra_inputs=row) for encoding, row in zip(encodings, rows, strict=True)]


def _row(value: Any, name: str) -> Tensor:
    """Return the value of one text as a tensor with the axis of a batch, (1, ...)."""
    try:
        tensor = value.detach() if isinstance(value, Tensor) else torch.as_tensor(plain_cell(value))
    except (TypeError, ValueError, RuntimeError):
        raise InputError(f"extra_inputs: {name!r} must be a number, or an array of numbers, for each text") from None
    return tensor[None]
