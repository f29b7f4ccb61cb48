"""Identify the caller's model by its weights, how it reads, and its answer to a fixed input.

Weights say nothing of active adapters, hooks, patched modules or settings; the answer does, whatever they consist of.
"""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from ..copies.clone import unwrapped
from ..errors import NormXLogitError
from ..parts.proofs import rounding_of
from ..results.storage.identity import PROBED, Identity
from .task_model import TaskModel

OTHER_DEVICE = 1e-3
"""Largest difference, relative to the largest logit, between two devices' answers of one model in single precision."""

PIECE = 64 << 20
"""Bytes of a weight that are moved to the CPU at once."""


def identity_of(model: TaskModel) -> Identity:
    """Return the identity of the caller's model as it answers now.

    It costs one pass over a short input, and reading the weights once. The answer is that of the model's copy, which is
    compared with the caller's own.
    """
    digest = hashlib.blake2b(digest_size=16)
    for part in _weights(unwrapped(model.caller_model)):
        digest.update(part)
    digest.update(json.dumps(_reading(model), sort_keys=True, default=str).encode())
    backend = getattr(model.tokenizer, "_tokenizer", None)
    if backend is not None:
        copy = type(backend).from_str(backend.to_str())
        copy.no_truncation()
        copy.no_padding()
        digest.update(copy.to_str().encode())
    elif hasattr(model.tokenizer, "get_vocab"):
        digest.update(repr(sorted(model.tokenizer.get_vocab().items())).encode())
    return Identity(digest.hexdigest(), *_probed(model))


def _probed(model: TaskModel) -> tuple[tuple[float, ...], float]:
    """Return some logits of the answer to the task's trial input, and what rounding may change in them."""
    try:
        encodings = model.task.encode(model, [model.task.example_input(model)])[0]
        with torch.inference_mode():
            logits = model.run(model.batch(encodings, [0] * len(encodings))).logits
    except NormXLogitError:  # such as a model that reads other inputs; what is explained by it says why
        return (), 0.0
    values = logits.detach().flatten().float().cpu().nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)  # (C,)
    chosen = torch.linspace(0, len(values) - 1, min(len(values), PROBED)).round().long()
    size = max(1.0, values.abs().max().item())
    return tuple(values[chosen].tolist()), size * max(OTHER_DEVICE, rounding_of(logits.dtype))


def _weights(model: nn.Module) -> Iterator[bytes | memoryview]:
    """Read the names and values of a model's weights, wherever they are, and which modules have hooks for gradients."""
    for name, value in sorted(model.state_dict().items()):
        if isinstance(value, Tensor) and value.is_meta:
            value = _offloaded(model, name)
        yield name.encode()
        yield from _elements(value)
    for path, module in model.named_modules():
        if module._backward_hooks or module._backward_pre_hooks:  # an answer does not show what they do
            yield f"gradients of {path}".encode()


def _elements(value: Any) -> Iterator[bytes | memoryview]:
    """Read the elements of a tensor; of another state its text or, where that may hold an address, its type."""
    if not isinstance(value, Tensor):
        yield (repr(value) if isinstance(value, bool | int | float | str) else type(value).__qualname__).encode()
        return
    flatten = getattr(value, "__tensor_flatten__", None)
    if flatten is not None:  # made of others, such as a quantised one
        names, settings = flatten()
        yield repr(settings).encode()
        for name in names:
            yield from _elements(getattr(value, name))
        return
    yield f"{tuple(value.shape)} {value.dtype}".encode()
    plain = value.detach()
    if plain.is_meta:
        return
    plain = plain.dequantize() if plain.is_quantized else plain
    plain = plain.to_dense() if plain.layout != torch.strided else plain
    for piece in plain.contiguous().flatten().view(torch.uint8).split(PIECE):
        yield piece.cpu().numpy().data


def _offloaded(model: nn.Module, name: str) -> Any:
    """Return a weight that accelerate offloaded to memory or disk; None if it cannot be found."""
    path = name.split(".")
    for cut in reversed(range(len(path))):
        hook = model.get_submodule(".".join(path[:cut])).__dict__.get("_hf_hook")
        for part in getattr(hook, "hooks", [hook]):
            weights, key = getattr(part, "weights_map", None), ".".join(path[cut:])
            if weights is not None and key in weights:
                return weights[key]
    return None


def _reading(model: TaskModel) -> dict[str, Any]:
    """Return the settings that results depend on beside the model and the tokenizer's vocabulary."""
    names = ("model_max_length", "truncation_side", "chat_template", "special_tokens_map", "do_lower_case")
    parts = ("image_processor", "feature_extractor")
    readers = [model.tokenizer, *(getattr(model.reader, part, None) for part in parts)]
    return {
        "task": model.task.name,
        "labels": list(model.task.labels),
        "tokenizer": {name: getattr(model.tokenizer, name, None) for name in names},
        "processors": [_settings(reader) for reader in readers],
        "pipeline": vars(model.pipeline),
    }


def _settings(reader: Any) -> Any:
    """Return the settings of an image processor or a feature extractor; None for tokenizers and for none."""
    if reader is None or hasattr(reader, "get_vocab"):
        return None
    return reader.to_dict() if hasattr(reader, "to_dict") else type(reader).__qualname__
