"""What tells one model from another: for folders of results that were made by one of them."""

import hashlib
import json
from typing import Any

import torch

from .task_model import TaskModel

__all__ = ["model_digest"]


def model_digest(model: TaskModel) -> str:
    """Return a digest of a model's weights, configuration, labels and tokenizer: another model has another."""
    found = hashlib.blake2b(digest_size=16)
    found.update(type(model.module).__name__.encode())
    found.update(_settled(model.config.to_json_string(use_diff=False)))
    found.update(json.dumps(_beside(model), sort_keys=True, default=str).encode())
    backend = getattr(model.tokenizer, "_tokenizer", None)
    if backend is not None:
        copy = type(backend).from_str(backend.to_str())
        copy.no_truncation()
        copy.no_padding()
        found.update(copy.to_str().encode())
    else:
        found.update(repr(sorted(model.tokenizer.get_vocab().items())).encode())
    for name, value in sorted(model.module.state_dict().items()):
        _add(found, name, value)
    return found.hexdigest()


def _add(found: "hashlib.blake2b", name: str, value: Any) -> None:
    """Add what a state dict holds: a tensor, or of quantised layers a tuple of tensors and numbers."""
    if isinstance(value, list | tuple):
        for place, part in enumerate(value):
            _add(found, f"{name}.{place}", part)
        return
    if not isinstance(value, torch.Tensor):
        found.update(f"{name} {value!r}".encode())
        return
    found.update(f"{name} {tuple(value.shape)} {value.dtype}".encode())
    if value.device.type == "meta":  # offloaded
        return
    plain = value.detach().dequantize() if value.is_quantized else value.detach()
    for part in plain.contiguous().flatten().view(torch.uint8).split(64 << 20):
        found.update(part.cpu().numpy())


def _beside(model: TaskModel) -> dict[str, Any]:
    """Return what results depend on that neither weights nor the tokenizer's vocabulary hold."""
    tokenizer = model.tokenizer
    writes = getattr(model.module, "generation_config", None)
    names = ("model_max_length", "truncation_side", "chat_template", "special_tokens_map", "do_lower_case")
    return {
        "task": model.task.name,
        "labels": list(model.task.labels),
        "tokenizer": {name: getattr(tokenizer, name, None) for name in names},
        "writes": None if writes is None else _settled(writes.to_json_string(use_diff=False)).decode(),
    }


def _settled(config: str) -> bytes:
    """Return a configuration without what says where it was loaded from and by what."""
    state = json.loads(config)
    for name in ("_name_or_path", "transformers_version", "torch_dtype"):
        state.pop(name, None)
    return json.dumps(state, sort_keys=True).encode()
