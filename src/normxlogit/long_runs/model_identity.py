"""Identify the caller's model by its weights, its input settings, and its logits for a fixed input.

Weights say nothing of active adapters, hooks, patched modules or settings; the answer does, whatever they consist of.
"""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from ..copies.arithmetic import full_float32
from ..copies.clone import unwrapped
from ..errors import NormXLogitError
from ..model.task_model import TaskModel
from ..parts.proofs import rounding_of
from .identity import PROBED, Identity

DEVICE_TOLERANCE = 1e-3
"""Largest difference between one model's float32 logits on two devices, relative to the largest logit."""

CHUNK = 64 << 20
"""Bytes of a weight that are moved to the CPU at once."""


def identity_of(model: TaskModel) -> Identity:
    """Return the identity of the caller's model as it is now.

    It costs one pass over a short input, and reading the weights once. The answer is that of the model's copy, which is
    compared with the caller's own.
    """
    digest = hashlib.blake2b(digest_size=16)
    for chunk in _weight_bytes(unwrapped(model.caller_model)):
        digest.update(chunk)
    digest.update(json.dumps(_reading_settings(model), sort_keys=True, default=str).encode())
    backend = getattr(model.tokenizer, "_tokenizer", None)
    if backend is not None:
        untruncated = type(backend).from_str(backend.to_str())
        untruncated.no_truncation()
        untruncated.no_padding()
        digest.update(untruncated.to_str().encode())
    elif hasattr(model.tokenizer, "get_vocab"):
        digest.update(repr(sorted(model.tokenizer.get_vocab().items())).encode())
    return Identity(digest.hexdigest(), *_probe_logits(model))


@full_float32()
def _probe_logits(model: TaskModel) -> tuple[tuple[float, ...], float]:
    """Return some logits for the task's example input, and their tolerance for rounding."""
    try:
        encodings = model.task.encode(model, [model.task.example_input(model)])[0]
        with torch.inference_mode():
            logits = model.run(model.batch(encodings)).logits
    except NormXLogitError:  # such as a model with other inputs; the reason is raised when it is used
        return (), 0.0
    values = logits.detach().flatten().float().cpu().nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)  # (C,)
    indices = torch.linspace(0, len(values) - 1, min(len(values), PROBED)).round().long()
    size = max(1.0, values.abs().max().item())
    return tuple(values[indices].tolist()), size * max(DEVICE_TOLERANCE, rounding_of(logits.dtype))


def _weight_bytes(model: nn.Module) -> Iterator[bytes | memoryview]:
    """Yield the names and bytes of a model's weights, also offloaded ones, and the modules with backward hooks."""
    for name, value in sorted(model.state_dict().items()):
        if isinstance(value, Tensor) and value.is_meta:
            value = _offloaded_weight(model, name)
        yield name.encode()
        yield from _tensor_bytes(value)
    for path, module in model.named_modules():
        if module._backward_hooks or module._backward_pre_hooks:  # an answer does not show what they do
            yield f"gradients of {path}".encode()


def _tensor_bytes(value: Any) -> Iterator[bytes | memoryview]:
    """Yield the bytes of a tensor; for another value its text, or its type if the text may hold an address."""
    if not isinstance(value, Tensor):
        yield (repr(value) if isinstance(value, bool | int | float | str) else type(value).__qualname__).encode()
        return
    flatten = getattr(value, "__tensor_flatten__", None)
    if flatten is not None:  # made of others, such as a quantised one
        names, settings = flatten()
        yield repr(settings).encode()
        for name in names:
            yield from _tensor_bytes(getattr(value, name))
        return
    yield f"{tuple(value.shape)} {value.dtype}".encode()
    dense = value.detach()
    if dense.is_meta:
        return
    dense = dense.dequantize() if dense.is_quantized else dense
    dense = dense.to_dense() if dense.layout != torch.strided else dense
    for chunk in dense.contiguous().flatten().view(torch.uint8).split(CHUNK):
        yield chunk.cpu().numpy().data


def _offloaded_weight(model: nn.Module, name: str) -> Any:
    """Return a weight that accelerate offloaded to memory or disk; None if it cannot be found."""
    path = name.split(".")
    for cut in reversed(range(len(path))):
        hook = model.get_submodule(".".join(path[:cut])).__dict__.get("_hf_hook")
        for part in getattr(hook, "hooks", [hook]):
            weights = getattr(part, "weights_map", None)
            key = ".".join(path[cut:])
            if weights is not None and key in weights:
                return weights[key]
    return None


def _reading_settings(model: TaskModel) -> dict[str, Any]:
    """Return the settings that results depend on beside the model and the tokenizer's vocabulary."""
    names = ("model_max_length", "truncation_side", "chat_template", "special_tokens_map", "do_lower_case")
    parts = ("image_processor", "feature_extractor")
    readers = [model.tokenizer, *(getattr(model.reader, part, None) for part in parts)]
    return {
        "task": model.task.name,
        "labels": list(model.task.outputs.labels),
        "tokenizer": {name: getattr(model.tokenizer, name, None) for name in names},
        "processors": [
            reader.to_dict() if hasattr(reader, "to_dict") else type(reader).__qualname__
            for reader in readers
            if reader is not None and not hasattr(reader, "get_vocab")
        ],
        "pipeline": vars(model.pipeline),
        "forward": [value for value in vars(model.forward).values() if value],  # printed, a tensor with its numbers
    }
