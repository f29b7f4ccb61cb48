"""How a module is called: modules that map token ids to logits, given the interface of a transformers model."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.utils.generic import ModelOutput

from ..errors import InputError, UnsupportedModelError
from .answers import AnswerForm, ForwardSettings
from .clone import override_forward

Arguments = Callable[[Mapping[str, Any]], dict[str, Any]]
"""Returns the arguments of a forward for the inputs of a transformers model."""


def arguments_of(model: nn.Module, settings: ForwardSettings) -> Arguments:
    """Return what makes the arguments of a forward: token ids under its own name, and what else it has names for."""
    names, takes_any = forward_arguments(model)
    class_name, is_plain = type(model).__name__, not isinstance(model, PreTrainedModel)
    said = {*settings.input_names.values(), *settings.extra_inputs}
    if (unknown := sorted(said - set(names))) and not takes_any:
        raise InputError(f"the forward of {class_name} has no argument {unknown[0]!r}, but {', '.join(names)}")
    first = next((name for name in names if name not in said), "input_ids")
    name_of = {"input_ids": "input_ids" if "input_ids" in names else first, **settings.input_names}
    parameters = inspect.signature(model.forward).parameters
    needed = {name for name in names if parameters[name].default is inspect.Parameter.empty}
    missing = sorted(needed - said - {name_of["input_ids"], "attention_mask", "token_type_ids", "position_ids"})
    if missing and is_plain:
        raise UnsupportedModelError(
            f"the forward of {class_name} needs {', '.join(missing)}: input_names={{'attention_mask': {missing[0]!r}}} "
            f"says that it is what the tokenizer calls so, extra_inputs={{{missing[0]!r}: ...}} gives something else"
        )

    def arguments(inputs: Mapping[str, Any]) -> dict[str, Any]:
        if absent := sorted(settings.extra_inputs.keys() - inputs.keys()):
            raise UnsupportedModelError(f"{class_name} cannot be called here without its further input {absent[0]!r}")
        renamed = {name_of.get(name, name): value for name, value in inputs.items()}
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
