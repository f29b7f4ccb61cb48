"""What a corpus run is asked for: everything that its results depend on, as a manifest keeps it."""

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

import torch

from .._version import __version__
from ..errors import InputError
from ..inputs.encoder import LongText
from ..inputs.texts import counted
from ..methods import Method, method_named
from ..models.layers import Layers
from ..models.targets import All, Choice, TargetSpec
from ..models.task_model import TaskModel
from ..pipeline.options import Options
from ..results.words import MERGES, Merge
from .shards import InputColumns

__all__ = ["SHARD_ROWS", "Settings", "model_digest"]

SHARD_ROWS = 4096
"""Rows of a shard: what is sorted by length, what is written at once, and the most that a kill can cost."""


@dataclass(frozen=True)
class Settings:
    """The settings of a run.

    Attributes:
        columns: Which columns of the input are what.
        target: What is explained in every row, if not a column says it.
        contrast: What is subtracted.
        method: The method.
        layers: The layers wanted.
        long_text: What to do with a text beyond the model's length; "error" puts its row among the errors.
        words: Whether tokens are merged to words too.
        merge: How; by default as fits the method.
        keep_text: Whether the texts are in the results.
        shard_rows: Rows of a shard.
    """

    columns: InputColumns
    target: TargetSpec = None
    contrast: Choice | None = None
    method: str | Method = "normxlogit"
    layers: Layers = None
    long_text: LongText = "truncate"
    words: bool = False
    merge: Merge | None = None
    keep_text: bool = False
    shard_rows: int = SHARD_ROWS

    def __post_init__(self) -> None:
        """Check what can be checked without a model."""
        counted(self.shard_rows, "shard_rows")
        if self.merge is not None and self.merge not in MERGES:
            raise InputError(f"merge must be {', '.join(map(repr, MERGES))} or None, not {self.merge!r}")
        if self.columns.target is not None and self.target is not None:
            raise InputError("give a target for all rows or a column with one for each, not both")
        self.options()

    def options(self, targets: list[Choice] | None = None) -> Options:
        """Return the options that each batch is explained with."""
        return Options(
            self.target,
            targets,
            self.contrast,
            self.layers,
            method_named(self.method),
            None,
            self.long_text,
            token_predictions=False,
        )

    def described(self) -> dict[str, Any]:
        """Return the settings as plain values, by the names that a user knows."""
        method = method_named(self.method)
        found = {
            **{f"{name} column": value for name, value in asdict(self.columns).items() if name != "keep"},
            "kept columns": list(self.columns.keep),
            "target": _plain(self.target),
            "contrast": _plain(self.contrast),
            "method": {"name": method.info.name, **method.settings},
            "layers": _plain(self.layers),
            "long texts": self.long_text,
            "words": self.words,
            "merge": self.merge,
            "kept text": self.keep_text,
            "rows of a shard": self.shard_rows,
            "version of normxlogit": __version__,
        }
        plain: dict[str, Any] = json.loads(json.dumps(found))  # as a manifest reads it
        return plain


def _plain(value: Any) -> Any:
    if isinstance(value, All):
        return {"all": True}  # a label may be called "all"
    if value is None or isinstance(value, str):
        return value
    if hasattr(value, "__index__"):
        return int(value)
    return [_plain(part) for part in value]


def model_digest(model: TaskModel) -> str:
    """Return a digest of a model's weights, configuration and tokenizer: another model has another."""
    found = hashlib.blake2b(digest_size=16)
    found.update(type(model.module).__name__.encode())
    found.update(_settled(model.config.to_json_string(use_diff=False)))
    backend = getattr(model.tokenizer, "_tokenizer", None)
    if backend is not None:
        copy = type(backend).from_str(backend.to_str())
        copy.no_truncation()
        copy.no_padding()
        found.update(copy.to_str().encode())
    else:
        found.update(repr(sorted(model.tokenizer.get_vocab().items())).encode())
    for name, tensor in sorted(model.module.state_dict().items()):
        found.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        if tensor.device.type != "meta":  # offloaded
            flat = tensor.detach().contiguous().flatten().view(torch.uint8)
            for part in flat.split(64 << 20):
                found.update(part.cpu().numpy())
    return found.hexdigest()


def _settled(config: str) -> bytes:
    """Return a configuration without what says where it was loaded from and by what."""
    import json

    state = json.loads(config)
    for name in ("_name_or_path", "transformers_version", "torch_dtype"):
        state.pop(name, None)
    return json.dumps(state, sort_keys=True).encode()
