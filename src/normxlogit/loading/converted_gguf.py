"""Converted GGUF files, which are kept between calls by the hash of the file."""

import copy
import hashlib
import logging
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from safetensors.torch import save_model

from ..compat import DTYPE

FOLDER_VARIABLE = "NORMXLOGIT_CACHE"
"""The environment variable with the folder of the cache; empty to keep nothing."""

MAX_BYTES = 4 << 30
"""Most bytes of the converted weights of a model that are kept."""

logger = logging.getLogger("normxlogit")


def cache_folder() -> Path | None:
    """Return the folder of what is kept between calls; None where the user has turned it off."""
    configured = os.environ.get(FOLDER_VARIABLE)
    if configured == "":
        return None
    root = configured or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "normxlogit"
    return Path(root).expanduser()


def converted_folder(file: Path) -> Path | None:
    """Return the folder in the cache for a GGUF file's converted model; None where the user has turned it off."""
    root = cache_folder()
    # What is no file with bytes gets its error where it is loaded; an empty one cannot be mapped.
    if root is None or not file.is_file() or not file.stat().st_size:
        return None
    digest = hashlib.sha256(np.memmap(file, mode="r").data).hexdigest()
    # Another version of transformers may convert the file otherwise.
    return root / "gguf" / f"{digest[:32]}-{transformers.__version__}"


def save_converted(model: Any, tokenizer: Any, folder: Path | None) -> None:
    """Save a de-quantised model in float32 with its tokenizer in the folder of `converted_folder`, atomically."""
    if folder is None or folder.is_dir():
        return
    size = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    if any(parameter.dtype != torch.float32 for parameter in model.parameters()) or size > MAX_BYTES:
        return
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
            unfinished = Path(temporary) / "model"
            _save_checkpoint(model, unfinished)
            tokenizer.save_pretrained(unfinished)
            if not _same_tokenizer(tokenizer, transformers.AutoTokenizer.from_pretrained(unfinished)):
                return
            unfinished.rename(folder)
    except (OSError, ValueError, RuntimeError):  # no room, no permission, or another process was first
        return
    logger.warning("kept the converted weights in %s (%d MB), a folder that can be removed", folder, size >> 20)


def _save_checkpoint(model: Any, folder: Path) -> None:
    """Save a model without its quantisation settings, with which transformers would refuse to save it."""
    folder.mkdir()
    config = copy.deepcopy(model.config)
    for name in ("quantization_config", "_pre_quantization_dtype"):
        vars(config).pop(name, None)
    config.architectures = [type(model).__name__]  # a GGUF file names no class, and a folder is loaded by it
    setattr(config, DTYPE, torch.float32)
    config.save_pretrained(folder)
    if model.generation_config is not None:
        model.generation_config.save_pretrained(folder)
    save_model(model, str(folder / "model.safetensors"), metadata={"format": "pt"})


def _same_tokenizer(tokenizer: Any, reloaded: Any) -> bool:
    """Return whether a tokenizer and its reloaded copy give the same ids and render chats alike."""
    names = ("chat_template", "model_max_length", "padding_side", "special_tokens_map")
    same = all(getattr(tokenizer, name) == getattr(reloaded, name) for name in names)
    return same and bool(tokenizer.backend_tokenizer.to_str() == reloaded.backend_tokenizer.to_str())
