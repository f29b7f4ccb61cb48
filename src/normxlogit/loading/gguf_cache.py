"""A cache of converted GGUF files, as converting them takes longer than an explanation.

A file is known by the hash of its content, so that one which was replaced is converted anew.
"""

import copy
import hashlib
import logging
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import save_model

FOLDER_VARIABLE = "NORMXLOGIT_CACHE"
"""The environment variable with the folder of the cache; empty to keep nothing."""

MAX_BYTES = 4 << 30
"""Most bytes of the converted weights of a model that are kept."""

FREE_SPACE_FACTOR = 4
"""The disk must have this multiple of the size of the weights free."""

SPECIAL = ("bos", "eos", "pad", "unk")
"""Special tokens that a reloaded tokenizer must have as the converted one."""

logger = logging.getLogger("normxlogit")


def cache_folder() -> Path | None:
    """Return the folder of the cache; None if the user has turned it off."""
    configured = os.environ.get(FOLDER_VARIABLE)
    if configured is not None:
        return Path(configured).expanduser() / "gguf" if configured else None
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "normxlogit" / "gguf"


def converted_folder(file: Path) -> Path | None:
    """Return the folder in the cache for a GGUF file's converted model; None without a cache."""
    cache = cache_folder()
    if cache is None or not file.is_file():
        return None
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        for block in iter(lambda: stream.read(2**20), b""):
            digest.update(block)
    return cache / f"{digest.hexdigest()[:32]}-{transformers.__version__}"


def save_converted(model: Any, tokenizer: Any, folder: Path | None) -> bool:
    """Save a de-quantised model in float32 with its tokenizer in the folder of `converted_folder`, atomically.

    Returns:
        Whether it is kept: not if the disk has no room.
    """
    if folder is None or folder.is_dir():
        return False
    size = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    if any(parameter.dtype != torch.float32 for parameter in model.parameters()) or size > MAX_BYTES:
        return False
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        if shutil.disk_usage(folder.parent).free < FREE_SPACE_FACTOR * size:
            return False
        with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
            unfinished = Path(temporary) / "model"
            _save_checkpoint(model, unfinished)
            tokenizer.save_pretrained(unfinished)
            if not _same_tokenizer(tokenizer, transformers.AutoTokenizer.from_pretrained(unfinished)):
                return False
            unfinished.rename(folder)
    except (OSError, ValueError, RuntimeError):  # no room, no permission, or another process was first
        return folder.is_dir()
    logger.warning("kept the converted weights in %s (%d MB), a folder that can be removed", folder, size >> 20)
    return True


def _save_checkpoint(model: Any, folder: Path) -> None:
    """Save a model without its quantisation settings, with which transformers would refuse to save it."""
    folder.mkdir()
    config = copy.deepcopy(model.config)
    for name in ("quantization_config", "_pre_quantization_dtype"):
        if hasattr(config, name):
            delattr(config, name)
    config.architectures, config.dtype = [type(model).__name__], torch.float32
    config.save_pretrained(folder)
    if model.generation_config is not None:
        model.generation_config.save_pretrained(folder)
    save_model(model, str(folder / "model.safetensors"), metadata={"format": "pt"})


def _same_tokenizer(tokenizer: Any, reloaded: Any) -> bool:
    """Return whether a tokenizer and its reloaded copy give the same ids and render chats alike."""
    names = ["chat_template", "model_max_length", "padding_side", *(f"{kind}_token_id" for kind in SPECIAL)]
    first, second = (
        [each.backend_tokenizer.to_str(), *(getattr(each, name) for name in names)] for each in (tokenizer, reloaded)
    )
    return first == second
