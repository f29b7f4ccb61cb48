"""Model fingerprint: a digest that identifies a model in folders of results."""

import hashlib
import json
from typing import Any

from ..copies.clone import clone, unwrapped
from ..copies.tree_digest import tree_digest
from .task_model import TaskModel


def model_digest(model: TaskModel) -> str:
    """Return a digest of the caller's model as it answers now, its labels and its tokenizer.

    The digest changes with the model's weights, settings, active adapters and hooks.
    """
    digest = hashlib.blake2b(tree_digest(clone(unwrapped(model.caller_model))), digest_size=16)
    digest.update(json.dumps(_reading(model), sort_keys=True, default=str).encode())
    backend = getattr(model.tokenizer, "_tokenizer", None)
    if backend is not None:
        copy = type(backend).from_str(backend.to_str())
        copy.no_truncation()
        copy.no_padding()
        digest.update(copy.to_str().encode())
    elif hasattr(model.tokenizer, "get_vocab"):
        digest.update(repr(sorted(model.tokenizer.get_vocab().items())).encode())
    return digest.hexdigest()


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
