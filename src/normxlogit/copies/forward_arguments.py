"""How a module is called: the arguments of its forward for the inputs of a model of transformers."""

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedModel

from ..errors import InputError, UnsupportedModelError
from .module_io import Inputs, TensorInputs
from .normalisers import Outputs

FieldKey = str | int | None
"""The name or index of a field in a module's output; None for an output that is the answer itself."""


@dataclass(frozen=True)
class ForwardSettings:
    """How a module is called and what it returns, as its owner says it."""

    outputs: Outputs | None = None  # what the numbers that it returns are; None to find out
    output_field: FieldKey = None  # the name or index of the field with the answer; None to find out
    input_names: Mapping[str, str] = field(default_factory=dict)  # its own names for the tokenizer's outputs
    extra_inputs: TensorInputs = field(default_factory=dict)  # further inputs, (1, ...), of texts without

    @property
    def describes_forward(self) -> bool:
        """Whether the owner says anything about the forward itself."""
        return self.outputs is not None or self.output_field is not None or bool(self.input_names)


IDS = "input_ids"
"""The name of token ids."""

GIVEN_IF_NEEDED = {"attention_mask", "token_type_ids", "position_ids"}
"""Inputs that every batch of texts can have."""

Arguments = Callable[[Inputs], dict[str, Any]]
"""Returns the arguments of a forward for the inputs of a transformers model."""


def arguments_of(model: nn.Module, settings: ForwardSettings, main_input: str = IDS) -> Arguments:
    """Return a function that makes the arguments of a forward of what a model of transformers is given.

    The main input gets the name that the forward has for it, and inputs for which it has no name are left out.

    Args:
        model: The module.
        settings: How its owner says that it is called.
        main_input: The name of the input that is explained, token ids or what is read instead of them.

    Raises:
        InputError: If the settings name an argument that the forward does not have.
        UnsupportedModelError: If a plain module needs an argument that nothing gives.
    """
    names, takes_any = forward_arguments(model)
    class_name = type(model).__name__
    is_plain = not isinstance(model, PreTrainedModel)
    # The arguments that the owner names, which are not the main input.
    named_inputs = {*settings.input_names.values(), *settings.extra_inputs}
    if not takes_any:
        _check_known_arguments(class_name, names, named_inputs)
    name_of = {main_input: _name_of_main(main_input, names, named_inputs), **settings.input_names}
    if is_plain:
        _check_needed_arguments(model, names, {*named_inputs, name_of[main_input]})

    def arguments(inputs: Inputs) -> dict[str, Any]:
        """Return the inputs under the forward's own names."""
        absent = sorted(settings.extra_inputs.keys() - inputs.keys())
        if absent:
            raise UnsupportedModelError(f"{class_name} cannot be called here without its further input {absent[0]!r}")
        renamed = {name_of.get(name, name): value for name, value in inputs.items()}
        # The **kwargs of a model of transformers take its switches, too.
        return renamed if takes_any and not is_plain else _known_arguments(renamed, names, takes_any=takes_any)

    return arguments


def _known_arguments(inputs: Inputs, names: Sequence[str], *, takes_any: bool) -> dict[str, Any]:
    """Return the inputs for which a forward has a name; tensors of any name if it has **kwargs.

    Inputs that are not tensors are switches of transformers, such as `return_dict`.
    """
    return {name: value for name, value in inputs.items() if name in names or (takes_any and isinstance(value, Tensor))}


def _check_known_arguments(class_name: str, names: Sequence[str], named_inputs: set[str]) -> None:
    """Refuse settings that name an argument that a forward does not have."""
    unknown = sorted(named_inputs.difference(names))
    if unknown:
        raise InputError(f"the forward of {class_name} has no argument {unknown[0]!r}, but {', '.join(names)}")


def _name_of_main(main_input: str, names: Sequence[str], named_inputs: Collection[str]) -> str:
    """Return the argument that is given the main input: that of its name, or the first that gets no other input."""
    if main_input in names:
        return main_input
    # With no argument left, as of a forward of **kwargs alone, it keeps its own name.
    return next((name for name in names if name not in named_inputs), main_input)


def _check_needed_arguments(model: nn.Module, names: Sequence[str], given_names: set[str]) -> None:
    """Refuse a module whose forward needs an argument that nothing gives."""
    parameters = inspect.signature(model.forward).parameters
    needed = {name for name in names if parameters[name].default is inspect.Parameter.empty}
    missing = sorted(needed - given_names - GIVEN_IF_NEEDED)
    if missing:
        raise UnsupportedModelError(
            f"the forward of {type(model).__name__} needs {', '.join(missing)}: input_names={{'attention_mask': "
            f"{missing[0]!r}}} says that it is what the tokenizer calls so, extra_inputs={{{missing[0]!r}: ...}} gives "
            "something else"
        )


def forward_arguments(model: nn.Module) -> tuple[list[str], bool]:
    """Return the names of a forward's arguments, and whether it takes any others as **kwargs."""
    parameters = inspect.signature(model.forward).parameters.values()
    by_keyword = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    argument_names = [parameter.name for parameter in parameters if parameter.kind in by_keyword]
    return argument_names, any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
