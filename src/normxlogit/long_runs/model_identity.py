"""Identify the caller's model by its weights, its input settings, and its logits for a fixed input.

Weights say nothing of active adapters, hooks, patched modules or settings; the answer does, whatever they consist of.
"""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from ..copies.clone import unwrapped
from ..copies.precision import full_float32
from ..errors import NormXLogitError
from ..model.task_model import TaskModel
from ..parts.proofs import rounding_of
from .identity import PROBED, Identity

INPUT_SETTINGS = ("model_max_length", "truncation_side", "chat_template", "special_tokens_map", "do_lower_case")
"""The attributes of a tokenizer that decide what the model reads."""

DEVICE_TOLERANCE = 1e-3
"""Largest difference between one model's float32 logits on two devices, relative to the largest logit."""

CHUNK = 64 << 20
"""Bytes of a weight that are moved to the CPU at once."""


def identity_of(model: TaskModel) -> Identity:
    """Return the identity of the caller's model as it is now.

    It costs one pass over a short input, and reading the weights once. The logits are those of the copy that is
    explained; where it is called otherwise than the caller's model, `copy_answers_as_the_model` compares the two.
    """
    digest = hashlib.blake2b(digest_size=16)
    for chunk in _weight_bytes(unwrapped(model.caller_model)):
        digest.update(chunk)
    digest.update(json.dumps(_input_settings(model), sort_keys=True, default=str).encode())
    digest.update(_tokenizer_text(model.tokenizer).encode())
    return Identity(digest.hexdigest(), *_probe_logits(model))


def _tokenizer_text(tokenizer: Any) -> str:
    """Return a text that differs where tokenizers tokenise differently; "" for what is not a tokenizer.

    Of a fast tokenizer it is the whole `tokenizer.json`, of a slow one the vocabulary.
    """
    backend = getattr(tokenizer, "_tokenizer", None)  # the object of the library `tokenizers` in a fast tokenizer
    if backend is not None:
        copy = type(backend).from_str(backend.to_str())
        # Each call of a fast tokenizer leaves its truncation and padding behind.
        copy.no_truncation()
        copy.no_padding()
        return str(copy.to_str())
    return repr(sorted(tokenizer.get_vocab().items())) if hasattr(tokenizer, "get_vocab") else ""


@full_float32()
def _probe_logits(model: TaskModel) -> tuple[tuple[float, ...], float]:
    """Return at most `PROBED` logits for the task's example input, evenly spaced, and their tolerance for rounding.

    There are none of a model that cannot read the example: the reason is raised when the model is used.
    """
    try:
        encodings, _ = model.task.encode(model, [model.task.example_input(model)])
        with torch.inference_mode():
            logits = model.run(model.batch(encodings)).logits
    except NormXLogitError:
        return (), 0.0
    # NaN would differ from itself, and no tolerance fits an infinity.
    values = logits.detach().flatten().float().cpu().nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)  # (C,)
    indices = torch.linspace(0, len(values) - 1, min(len(values), PROBED)).round().long()
    largest = max(1.0, values.abs().max().item())
    return tuple(values[indices].tolist()), largest * max(DEVICE_TOLERANCE, rounding_of(logits.dtype))


def _weight_bytes(model: nn.Module) -> Iterator[bytes | memoryview]:
    """Yield the names and bytes of a model's weights, also offloaded ones, and the modules with backward hooks."""
    for name, value in sorted(model.state_dict().items()):
        if isinstance(value, Tensor) and value.is_meta:  # accelerate keeps it elsewhere until a pass needs it
            value = _offloaded_weight(model, name)
        yield name.encode()
        yield from _tensor_bytes(value)
    for path, module in model.named_modules():
        if module._backward_hooks or module._backward_pre_hooks:  # they change gradients alone, which no logit shows
            yield f"gradients of {path}".encode()


def _tensor_bytes(value: Any) -> Iterator[bytes | memoryview]:
    """Yield the bytes of a tensor; for another value its text, or its type if the text may hold an address."""
    if not isinstance(value, Tensor):
        yield (repr(value) if isinstance(value, bool | int | float | str) else type(value).__qualname__).encode()
        return
    flatten = getattr(value, "__tensor_flatten__", None)  # PyTorch's protocol for subclasses that wrap other tensors
    if flatten is not None:  # such as a quantised weight of torchao
        names, settings = flatten()
        yield repr(settings).encode()
        for name in names:
            yield from _tensor_bytes(getattr(value, name))
        return
    yield f"{tuple(value.shape)} {value.dtype}".encode()
    dense = value.detach()
    if dense.is_quantized:
        dense = dense.dequantize()
    if dense.layout != torch.strided:  # sparse
        dense = dense.to_dense()
    for chunk in dense.contiguous().flatten().view(torch.uint8).split(CHUNK):
        yield chunk.cpu().numpy().data


def _offloaded_weight(model: nn.Module, name: str) -> Any:
    """Return a weight that accelerate offloaded to memory or disk; None if it cannot be found.

    Accelerate's hook, `_hf_hook` of the module with the weight or of one around it, has a `weights_map`: the offloaded
    weights by their names within its module. Several hooks of one module are the `hooks` of a `SequentialHook`.
    """
    path = name.split(".")
    for depth in reversed(range(len(path))):  # from the module of the weight to the whole model
        hook = model.get_submodule(".".join(path[:depth])).__dict__.get("_hf_hook")
        name_in_module = ".".join(path[depth:])
        for single_hook in getattr(hook, "hooks", [hook]):
            weights = getattr(single_hook, "weights_map", None)
            if weights is not None and name_in_module in weights:
                return weights[name_in_module]
    return None


def _input_settings(model: TaskModel) -> dict[str, Any]:
    """Return the settings that results depend on beside the weights and the tokenizer's vocabulary."""
    processor_names = ("image_processor", "feature_extractor")
    # `model.tokenizer` is a processor where the model reads no text; a tokenizer itself is in `_tokenizer_text`.
    processors = [model.tokenizer, *(getattr(model.reader, name, None) for name in processor_names)]
    return {
        "task": model.task.name,
        "labels": list(model.task.outputs.labels),
        "tokenizer": {name: getattr(model.tokenizer, name, None) for name in INPUT_SETTINGS},
        "processors": [
            processor.to_dict() if hasattr(processor, "to_dict") else type(processor).__qualname__
            for processor in processors
            if processor is not None and not hasattr(processor, "get_vocab")
        ],
        "pipeline": vars(model.pipeline),
        # What the caller says of the module's forward. Tensors among it are written by `str`, with their numbers.
        "forward": [value for value in vars(model.forward).values() if value],
    }
