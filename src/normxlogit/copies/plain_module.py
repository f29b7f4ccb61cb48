"""How a module is called: modules that map token ids to logits, given the interface of a transformers model."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.utils.generic import ModelOutput

from ..errors import UnsupportedModelError
from .answers import AnswerForm
from .clone import override_forward

Arguments = Callable[[Mapping[str, Any]], dict[str, Any]]
"""Returns the arguments of a forward for the inputs of a transformers model."""


def arguments_of(model: nn.Module) -> Arguments:
    """Return what makes the arguments of a forward.

    It gets the token ids as `input_ids`, or as its first argument, and of the other inputs those that it has names for.

    Raises:
        UnsupportedModelError: If the forward needs an argument that nothing gives.
    """
    names, takes_any = forward_arguments(model)
    is_plain = not isinstance(model, PreTrainedModel)
    ids = "input_ids" if "input_ids" in names else next(iter(names), "input_ids")
    parameters = inspect.signature(model.forward).parameters
    needed = {name for name in names if parameters[name].default is inspect.Parameter.empty}
    missing = sorted(needed - {ids, "attention_mask", "token_type_ids", "position_ids"})
    if missing and is_plain:
        raise UnsupportedModelError(
            f"the forward of {type(model).__name__} needs {', '.join(missing)}: pass a module whose forward(input_ids, "
            "attention_mask) calls this one with it"
        )

    def arguments(inputs: Mapping[str, Any]) -> dict[str, Any]:
        renamed = {ids if name == "input_ids" else name: value for name, value in inputs.items()}
        any_value = takes_any and not is_plain  # settings, too
        return {
            name: value
            for name, value in renamed.items()
            if name in names or any_value or (takes_any and isinstance(value, Tensor))
        }

    return arguments


def adapt_forward(model: nn.Module, form: AnswerForm, arguments: Arguments) -> None:
    """Give a clone named inputs and an output with logits, as a transformers model has them."""
    is_plain = not isinstance(model, PreTrainedModel)

    def forward(original: Callable[..., Any], *args: Any, **inputs: Any) -> ModelOutput:
        named = {"input_ids": args[0], **inputs} if args else inputs
        output, logits = form.call(original, **arguments(named))
        return ModelOutput(
            {"logits": logits} if is_plain or not isinstance(output, Mapping) else {**output, "logits": logits}
        )

    override_forward(model, forward)


def forward_arguments(model: nn.Module) -> tuple[list[str], bool]:
    """Return the names of a forward's arguments, and whether it takes any others."""
    parameters = inspect.signature(model.forward).parameters.values()
    by_keyword = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    argument_names = [parameter.name for parameter in parameters if parameter.kind in by_keyword]
    return argument_names, any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
