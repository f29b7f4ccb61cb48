"""Errors of the code of a model or a processor, which become errors of this library that say what cannot be done."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from ..copies.forward_arguments import IDS
from ..copies.memory import reraise_out_of_memory
from ..copies.module_io import TensorInputs
from ..errors import InputError, NormXLogitError, reason_of

TOO_LONG = "; if it is too long, set the tokenizer's model_max_length to what the model reads, and see long_text="


@contextmanager
def named_errors(
    description: str, error_class: type[NormXLogitError] = InputError, *, hint: str = ""
) -> Iterator[None]:
    """Turn an error of a model or a processor into one of this library.

    Args:
        description: What cannot be done, with which the error begins.
        error_class: The class of the error.
        hint: What to do, with which it ends.

    Raises:
        NormXLogitError: In the place of another error, unless that is for too little memory.
    """
    try:
        yield
    except NormXLogitError:
        raise
    except Exception as error:
        reraise_out_of_memory(error)
        raise error_class(f"{description}: {type(error).__name__}: {reason_of(error)}{hint}") from error


@contextmanager
def input_errors(
    model: nn.Module, inputs: TensorInputs, main_input: str = IDS, *, gradients: bool = False, doing: str = "read"
) -> Iterator[None]:
    """Turn an error of the model's own code into an `InputError` that names the input.

    Args:
        model: The model, for its name.
        inputs: The arguments of its forward.
        main_input: The name of the one that holds what is explained.
        gradients: Whether gradients are on: then the error is left as it is, and so is one for too little memory.
        doing: What the model cannot do, for the message.

    Raises:
        InputError: In the place of the model's own error.
    """
    if gradients:
        yield
        return
    described, hint = "its input", ""
    if main_input != IDS:
        described = f"{main_input} of shape {tuple(inputs[main_input].shape)}"
    elif IDS in inputs:
        texts, tokens = inputs[IDS].shape
        described = f"{f'{texts} texts' if texts > 1 else 'a text'} of {tokens} tokens"
        hint = TOO_LONG if tokens > 16 else ""  # so few are hardly too long
    with named_errors(f"{type(model).__name__} cannot {doing} {described}", hint=hint):
        yield
