"""Plain modules that map token ids to logits, given the interface of a transformers model."""

import functools
import inspect
import types
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from transformers.utils.generic import ModelOutput

from ..errors import NormXLogitError, UnsupportedModelError, reason_of
from .clone import override_forward
from .memory import reraise_out_of_memory
from .run import run


def as_task_model(model: nn.Module, ids: Tensor) -> Tensor:
    """Give a clone of a plain module the interface of a transformers model: named inputs and outputs, and embeddings.

    Its forward gets the token ids as `input_ids`, or as its first argument, and of the other inputs those that it has
    names for.

    Args:
        model: The clone.
        ids: Some token ids that it can read, (1, T).

    Returns:
        Its logits for them.

    Raises:
        UnsupportedModelError: If it cannot be called like this, or returns no logits.
    """
    _check_arguments(model)
    names, takes_any = forward_arguments(model)
    ids_name = "input_ids" if "input_ids" in names or not names else names[0]

    def forward(original: Callable[..., Any], *args: Any, **inputs: Any) -> ModelOutput:
        accepted = {
            name: value for name, value in inputs.items() if name in names or (takes_any and isinstance(value, Tensor))
        }
        token_ids = args[0] if args else inputs.get("input_ids")
        if token_ids is not None:
            accepted.pop("input_ids", None)
            accepted[ids_name] = token_ids
        return ModelOutput(logits=logits_of(original(**accepted)))

    override_forward(model, forward)
    path, logits = _find_embedding(model, ids)
    _define_part_getter(model, "get_input_embeddings", path)
    _define_part_getter(model, "get_output_embeddings", None)
    return logits


def logits_of(output: Any) -> Tensor:
    """Return the logits in a module's output: a tensor, the first of a tuple, or an attribute or key `logits`.

    A mapping without them has the logits as its only tensor of floats, a loss, which has no axes, left out.

    Start and end logits, (B, T) each, are put side by side, (B, T, 2); one number for each text becomes (B, 1).
    """
    logits = output
    if isinstance(output, Mapping):
        if output.get("start_logits") is not None:
            logits = [output["start_logits"], output.get("end_logits")]
        elif "logits" in output:
            logits = output["logits"]
        else:
            tensors = [value for value in output.values() if isinstance(value, Tensor) and value.ndim > 0]
            float_tensors = [value for value in tensors if value.is_floating_point()]
            logits = float_tensors[0] if len(float_tensors) == 1 else None
    elif hasattr(output, "logits"):
        logits = output.logits
    if isinstance(logits, tuple | list):
        # A scalar loss may precede the logits.
        tensors = [value for value in logits if isinstance(value, Tensor) and value.ndim > 0]
        are_start_and_end = (
            len(tensors) == 2 and all(value.ndim == 2 for value in tensors) and tensors[0].shape == tensors[1].shape
        )
        logits = torch.stack(tensors, -1) if are_start_and_end else next(iter(tensors), None)
    if not isinstance(logits, Tensor) or not logits.is_floating_point() or logits.ndim not in (1, 2, 3):
        raise UnsupportedModelError(
            f"the module returns {_describe_output(output)}; its logits must be a tensor of shape (texts, classes) or "
            "(texts, tokens, classes), alone, first in a tuple, or under 'logits' in a mapping"
        )
    return logits[:, None] if logits.ndim == 1 else logits


def forward_arguments(model: nn.Module) -> tuple[list[str], bool]:
    """Return the names of a forward's arguments, and whether it takes any others."""
    parameters = inspect.signature(model.forward).parameters.values()
    by_keyword = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    argument_names = [parameter.name for parameter in parameters if parameter.kind in by_keyword]
    return argument_names, any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)


def _check_arguments(model: nn.Module) -> None:
    """Refuse a module whose forward needs arguments other than a tokenizer's outputs."""
    names, _ = forward_arguments(model)
    parameters = inspect.signature(model.forward).parameters
    needed = {name for name in names if parameters[name].default is inspect.Parameter.empty}
    first = "input_ids" if "input_ids" in names else next(iter(names), "input_ids")
    missing = sorted(needed - {first, "attention_mask", "token_type_ids", "position_ids"})
    if missing:
        raise UnsupportedModelError(
            f"the forward of {type(model).__name__} needs {', '.join(missing)}; it must be called with input_ids, and "
            "attention_mask if it takes one"
        )


def _find_embedding(model: nn.Module, ids: Tensor) -> tuple[str | None, Tensor]:
    """Run a model, and return the path of its embedding table, None if there is none, and its logits.

    The embedding table is the first module without children that is called with the ids and returns a vector for each.

    Args:
        model: The model.
        ids: Token ids, (1, T).
    """
    lookup_paths: list[str] = []

    def note_lookup(path: str, output: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        indices = next((value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)), None)
        looked_up = isinstance(output, Tensor) and output.is_floating_point() and output.ndim == 3
        # The model may have put the axis of tokens first.
        if looked_up and indices is not None and (indices.equal(ids) or indices.equal(ids.T)):
            lookup_paths.append(path)

    leaves = [path for path, module in model.named_modules() if not any(True for _ in module.children())]
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    try:
        with torch.inference_mode():
            result = run(model, inputs, replace={path: functools.partial(note_lookup, path) for path in leaves})
    except NormXLogitError:
        raise
    except Exception as error:
        reraise_out_of_memory(error)
        raise UnsupportedModelError(
            f"{type(model).__name__} cannot read token ids of shape {tuple(ids.shape)}: {type(error).__name__}: "
            f"{reason_of(error)}"
        ) from error
    logits: Tensor = result.output["logits"]
    return (lookup_paths[0] if lookup_paths else None), logits


def _define_part_getter(model: nn.Module, name: str, path: str | None) -> None:
    """Define a method such as `get_input_embeddings` on a clone that has none, to return the module at a path."""
    if hasattr(model, name):
        return

    def get_part(self: nn.Module) -> nn.Module | None:
        return None if path is None else self.get_submodule(path)

    model.__dict__[name] = types.MethodType(get_part, model)


def _describe_output(output: Any) -> str:
    """Return a description of the type of a module's output, with the shape of a tensor."""
    if isinstance(output, Tensor):
        return f"a tensor of shape {tuple(output.shape)} and type {str(output.dtype).removeprefix('torch.')}"
    return f"a {type(output).__name__}"
