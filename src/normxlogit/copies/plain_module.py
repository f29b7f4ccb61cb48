"""Any module that maps token ids to logits, with the interface of a transformers model."""

import functools
import inspect
import types
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from transformers.utils.generic import ModelOutput

from ..errors import NormXLogitError, UnsupportedModelError
from .clone import override_forward
from .memory import refuse_to_hide
from .run import run


def as_task_model(model: nn.Module, ids: Tensor) -> Tensor:
    """Give a clone of a plain module the interface of a transformers model: named inputs and outputs, and embeddings.

    Its forward gets the token ids as `input_ids`, or as its first argument, and of the other inputs those that it has
    names for.

    Args:
        model: The clone.
        ids: Some token ids that it can read, (1, T).

    Returns:
        Its answer to them.

    Raises:
        UnsupportedModelError: If it cannot be called like this, or returns no logits.
    """
    names, everything = _arguments(model)
    first = "input_ids" if "input_ids" in names or not names else names[0]

    def forward(original: Callable[..., Any], *args: Any, **inputs: Any) -> ModelOutput:
        read = {n: v for n, v in inputs.items() if n in names or (everything and isinstance(v, Tensor))}
        if args:
            read[first] = args[0]
        elif first != "input_ids" and "input_ids" in inputs:
            read[first] = inputs["input_ids"]
            read.pop("input_ids", None)
        return ModelOutput(logits=logits_of(original(**read)))

    override_forward(model, forward)
    path, logits = _embedding(model, ids)
    _give(model, "get_input_embeddings", path)
    _give(model, "get_output_embeddings", None)
    return logits


def logits_of(output: Any) -> Tensor:
    """Return the logits in a module's output: a tensor, a tuple, a mapping or an object with `logits`.

    Start and end logits, (B, T) each, are put side by side, (B, T, 2); one number for each text becomes (B, 1).
    """
    logits = output
    if isinstance(output, Mapping):
        spans = [output.get("start_logits"), output.get("end_logits")]
        only = [v for v in output.values() if isinstance(v, Tensor) and v.is_floating_point()]
        logits = output.get("logits", only[0] if len(only) == 1 else None)
        logits = logits if spans[0] is None else spans
    elif hasattr(output, "logits"):
        logits = output.logits
    if isinstance(logits, tuple | list):
        tensors = [v for v in logits if isinstance(v, Tensor) and v.ndim > 0]  # a loss may stand before them
        both = len(tensors) == 2 and all(v.ndim == 2 for v in tensors) and tensors[0].shape == tensors[1].shape
        logits = torch.stack(tensors, -1) if both else next(iter(tensors), None)
    if not isinstance(logits, Tensor) or not logits.is_floating_point() or logits.ndim not in (1, 2, 3):
        raise UnsupportedModelError(
            f"the module returns {_described(output)}; its logits must be a tensor of shape (texts, classes) or "
            "(texts, tokens, classes), alone, first in a tuple, or under 'logits' in a mapping"
        )
    return logits[:, None] if logits.ndim == 1 else logits


def _arguments(model: nn.Module) -> tuple[list[str], bool]:
    """Return the names of the forward's arguments, and whether it takes any others."""
    parameters = inspect.signature(model.forward).parameters
    named = {n: p for n, p in parameters.items() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    needed = [n for n, p in named.items() if p.default is p.empty]
    first = "input_ids" if "input_ids" in named else next(iter(named), "input_ids")
    missing = sorted({*needed} - {first, "attention_mask", "token_type_ids", "position_ids"})
    if missing:
        raise UnsupportedModelError(
            f"the forward of {type(model).__name__} needs {', '.join(missing)}; it must be called with input_ids, and "
            "attention_mask if it takes one"
        )
    return list(named), any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def _embedding(model: nn.Module, ids: Tensor) -> tuple[str | None, Tensor]:
    """Return the path of the table that the ids are looked up in, None if there is none, and the answer to them."""
    tables: list[str] = []

    def look(path: str, output: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        indices = next((v for v in (*args, *kwargs.values()) if isinstance(v, Tensor)), None)
        looked_up = isinstance(output, Tensor) and output.is_floating_point() and output.ndim == 3
        if looked_up and indices is not None and (indices.equal(ids) or indices.equal(ids.T)):
            tables.append(path)

    leaves = [path for path, module in model.named_modules() if not any(True for _ in module.children())]
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    try:
        with torch.inference_mode():
            done = run(model, inputs, replace={path: functools.partial(look, path) for path in leaves})
    except NormXLogitError:
        raise
    except Exception as error:
        refuse_to_hide(error)
        raise UnsupportedModelError(
            f"{type(model).__name__} cannot read token ids of shape {tuple(ids.shape)}: {type(error).__name__}: "
            f"{(str(error).splitlines() or [''])[0]}"
        ) from error
    logits: Tensor = done.output["logits"]
    return (tables[0] if tables else None), logits


def _give(model: nn.Module, name: str, path: str | None) -> None:
    """Give a clone the method by which transformers models tell a part, if it has none of its own."""
    if hasattr(model, name):
        return

    def part(self: nn.Module) -> nn.Module | None:
        return None if path is None else self.get_submodule(path)

    model.__dict__[name] = types.MethodType(part, model)


def _described(output: Any) -> str:
    if isinstance(output, Tensor):
        return f"a tensor of shape {tuple(output.shape)} and type {str(output.dtype).removeprefix('torch.')}"
    return f"a {type(output).__name__}"
