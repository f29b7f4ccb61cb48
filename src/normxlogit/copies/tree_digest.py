"""A digest of a module tree: weights, settings, adapters and hooks, the same in every process for the same model."""

import argparse
import enum
import functools
import hashlib
import json
import sys
import sysconfig
import types
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import GenerationConfig, PretrainedConfig, PreTrainedModel

from .clone import content_of
from .snapshot import RECORDING, RECORDS, TABLES

HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
KWARGS = {"_forward_pre_hooks": "_forward_pre_hooks_with_kwargs", "_forward_hooks": "_forward_hooks_with_kwargs"}

LEFT_OUT = {
    *TABLES,
    *vars(nn.Module).keys() - {"forward"},  # accelerate puts its own "to" and "cuda" on a model
    RECORDS,
    "_attn_implementation",  # eager or fused: the same answer
    "_hf_hook",  # accelerate: where weights are, and how they get to the device
    "_is_hf_initialized",  # transformers: whether the weights came from a checkpoint
    "_old_forward",
    "peft_config",  # where an adapter came from; what it does is in its layers
}
"""Attributes of a module that its answer does not depend on, or that are read in another way."""

LOADED = ("name_or_path", "hf_", "is_quantized", "is_loaded_in_", "quantization_method", "_")
"""How attributes of a transformers model begin that say how it was loaded, not how it answers."""

CONFIG_LEFT_OUT = ("_name_or_path", "architectures", "dtype", "return_dict", "torch_dtype", "transformers_version")
"""Entries of a configuration that tell how it was loaded."""

DEEPEST = 32
"""Nesting of values beyond which they are not read."""

PIECE = 64 << 20
"""Bytes of a tensor that are moved to the CPU at once."""

PYTHON = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib")})
PACKAGES = tuple({sysconfig.get_path(name) for name in ("purelib", "platlib")})
"""Folders of installed code, which is told apart by its names."""


def tree_digest(model: nn.Module) -> bytes:
    """Return a digest of everything in a module tree that its answers depend on.

    Weights count by their values, wherever they are; hooks and functions by their code and by the values that they
    refer to. What was only computed, such as caches, does not count, nor do devices, dtypes that are in the weights
    anyway, and where a configuration was loaded from.
    """
    reader = _Reader(model)
    digest = reader.start("model")
    for path, module in model.named_modules():
        digest.update(reader.module(path, module))
    for name, value in sorted(model.state_dict().items()):
        if isinstance(value, Tensor) and value.is_meta:
            value = _offloaded(model, name)
        digest.update(name.encode() + reader.value(value))
    return digest.digest()


class _Reader:
    """Digests of values; each object is read once."""

    def __init__(self, model: nn.Module) -> None:
        self._paths = {id(module): path for path, module in model.named_modules()}
        self._known: dict[int, tuple[Any, bytes]] = {}  # with the object, for its number not to be used again

    @staticmethod
    def start(kind: str) -> "hashlib.blake2b":
        """Return a new digest."""
        return hashlib.blake2b(kind.encode() + b"\0", digest_size=16)

    def module(self, path: str, module: nn.Module, depth: int = DEEPEST) -> bytes:
        """Return the digest of a module without its weights and children."""
        digest = self.start(f"module {path} {type(module).__name__}")
        for name in sorted(module._non_persistent_buffers_set):
            if "cache" not in name:
                digest.update(name.encode() + self.value(module._buffers.get(name), depth))
        for name, value in sorted(_attributes(module)):
            digest.update(name.encode() + self.value(value, depth))
        for table in HOOKS:
            with_kwargs = getattr(module, KWARGS.get(table, ""), {})
            for number, hook in getattr(module, table).items():
                if getattr(hook, "__module__", "") != RECORDING:
                    digest.update(f"{table} {number in with_kwargs}".encode() + self.value(hook, depth))
        for kind in type(module).__mro__:
            if not _installed(kind):
                digest.update(self._each(kind.__name__, vars(kind), depth))
        return digest.digest()

    def _each(self, kind: str, values: Mapping[str, Any], depth: int) -> bytes:
        """Return the digest of the functions and values among the attributes of a class."""
        digest = self.start(f"class {kind}")
        for name, value in sorted(values.items()):
            function = value.__func__ if isinstance(value, staticmethod | classmethod) else value
            function = function.fget if isinstance(function, property) else function
            if isinstance(function, types.FunctionType) or not name.startswith(("__", "_abc_")):
                digest.update(name.encode() + self.value(function, depth))
        return digest.digest()

    def value(self, value: Any, depth: int = DEEPEST) -> bytes:
        """Return the digest of any value."""
        if value is None or isinstance(value, bool | int | float | complex | str | bytes | torch.dtype):
            return self.start(f"{type(value).__name__} {value!r}").digest()
        if id(value) in self._paths:
            return self.start(f"module {self._paths[id(value)]}").digest()
        if not depth:
            return b"deep"
        if id(value) not in self._known:
            self._known[id(value)] = value, b"itself"
            digest = self.start(_name(value))
            for part in self._parts(value, depth - 1):
                digest.update(part)
            self._known[id(value)] = value, digest.digest()
        return self._known[id(value)][1]

    def _parts(self, value: Any, depth: int) -> Iterator[bytes | memoryview]:
        """Read what a value consists of."""
        flatten = getattr(value, "__tensor_flatten__", None) if isinstance(value, Tensor) else None
        if flatten is not None:  # a tensor made of others, such as a quantised one
            names, settings = flatten()
            yield from (self.value(part, depth) for part in (*(getattr(value, name) for name in names), settings))
        elif isinstance(value, Tensor):
            yield from _elements(value)
        elif isinstance(value, np.ndarray | np.generic):
            yield f"{value.dtype} {value.shape}".encode()
            yield self.value(value.tolist(), depth) if value.dtype == object else np.ascontiguousarray(value).tobytes()
        elif isinstance(value, PretrainedConfig | GenerationConfig):
            yield json.dumps(_settled(json.loads(value.to_json_string(use_diff=False))), sort_keys=True).encode()
        elif isinstance(value, Mapping):
            yield from sorted(self.value(k, depth) + self.value(v, depth) for k, v in value.items())
        elif isinstance(value, set | frozenset):
            yield from sorted(self.value(part, depth) for part in value)
        elif isinstance(value, list | tuple | deque):
            yield from (self.value(part, depth) for part in value)
        elif isinstance(value, nn.Module):  # outside the tree, such as one that a hook applies
            for path, module in value.named_modules():
                yield self.module(path, module, depth)
            yield self.value(dict(value.state_dict()), depth)
        else:
            yield from self._parts_of_code(value, depth)

    def _parts_of_code(self, value: Any, depth: int) -> Iterator[bytes]:
        """Read a function, a method or an object with attributes; of all other values the type is all that is read."""
        if isinstance(value, types.FunctionType):
            yield from (self.value(part, depth) for part in (value.__code__, value.__defaults__, value.__kwdefaults__))
            yield from (self.value(content_of(cell), depth) for cell in value.__closure__ or ())
            for name in sorted(_names(value.__code__) & value.__globals__.keys()):
                yield name.encode() + self.value(value.__globals__[name], depth)
        elif isinstance(value, types.CodeType):
            yield value.co_code
            yield from (self.value(part, depth) for part in (value.co_consts, value.co_names, value.co_varnames))
        elif isinstance(value, types.MethodType):
            yield self.value(value.__func__, depth) + self.value(value.__self__, depth)
        elif isinstance(value, functools.partial):
            yield from (self.value(part, depth) for part in (value.func, value.args, value.keywords))
        elif isinstance(value, enum.Enum):
            yield value.name.encode()
        elif not isinstance(value, type | types.ModuleType) and not _machinery(type(value)):
            yield self.value(getattr(value, "__dict__", None), depth)
            names = [name for kind in type(value).__mro__ for name in _slots(kind)]
            yield from (self.value(getattr(value, name, None), depth) for name in names)
            if not _installed(type(value)):
                yield from (self._each(kind.__name__, vars(kind), depth) for kind in type(value).__mro__[:-1])


def _attributes(module: nn.Module) -> Iterator[tuple[str, Any]]:
    """Return the attributes of a module that its answers may depend on."""
    state = module.__dict__
    loaded = LOADED if isinstance(module, PreTrainedModel) else ()
    unused = ("padding_idx",) if isinstance(module, PreTrainedModel | nn.Embedding) else ()  # but for training
    for name, value in state.items():
        if name in LEFT_OUT or "cache" in name or name.startswith(loaded) or name in unused:
            continue
        if name == "forward" and "_hf_hook" in state:  # accelerate's, around the module's own
            value = state.get("_old_forward")
            if getattr(value, "__func__", None) is type(module).forward:
                continue
        yield name, value


def _elements(value: Tensor) -> Iterator[bytes | memoryview]:
    """Read a tensor's shape and elements."""
    yield f"{tuple(value.shape)} {value.dtype}".encode()
    if value.is_meta:
        return
    plain = value.detach()
    if plain.is_quantized:
        plain = plain.dequantize()
    if plain.layout != torch.strided:
        plain = plain.to_dense()
    for piece in plain.contiguous().flatten().view(torch.uint8).split(PIECE):
        yield piece.cpu().numpy().data


def _offloaded(model: nn.Module, name: str) -> Any:
    """Return a weight that accelerate offloaded to memory or disk; None if it cannot be found."""
    path = name.split(".")
    for cut in reversed(range(len(path))):
        hook = model.get_submodule(".".join(path[:cut])).__dict__.get("_hf_hook")
        for one in getattr(hook, "hooks", [hook]):
            weights, key = getattr(one, "weights_map", None), ".".join(path[cut:])
            if weights is not None and key in weights:
                return weights[key]
    return None


def _settled(config: Any) -> Any:
    """Return a configuration without the fields that say where it was loaded from."""
    if isinstance(config, dict):
        return {name: _settled(value) for name, value in config.items() if name not in CONFIG_LEFT_OUT}
    return [_settled(value) for value in config] if isinstance(config, list) else config


def _name(value: Any) -> str:
    """Return the qualified name of a value, or of its type."""
    named = value if isinstance(value, type | types.FunctionType | types.BuiltinFunctionType) else type(value)
    if isinstance(value, types.ModuleType):
        return f"module {value.__name__}"
    if isinstance(value, Tensor):  # a parameter or not
        return "tensor"
    if isinstance(value, Mapping):  # ordered or not
        return "mapping"
    if type(value) in (list, tuple):  # a configuration that was saved has lists only
        return "list"
    return f"{getattr(named, '__module__', '')} {named.__qualname__}"


def _names(code: types.CodeType) -> set[str]:
    """Return the names that a function and those inside it look up."""
    inner = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return set(code.co_names).union(*map(_names, inner))


def _slots(kind: type) -> list[str]:
    slots = vars(kind).get("__slots__", ())
    names = [slots] if isinstance(slots, str) else list(slots)
    return [name for name in names if name not in ("__dict__", "__weakref__")]


def _installed(kind: type) -> bool:
    """Return whether a class is of Python, of an installed package or of this library."""
    return kind.__module__.split(".")[0] in ("builtins", "normxlogit") or _lies_in(kind, PYTHON + PACKAGES)


def _machinery(kind: type) -> bool:
    """Return whether objects of a class cannot affect an answer: Python's, such as loggers, and this library's."""
    if kind in (types.SimpleNamespace, argparse.Namespace) or is_dataclass(kind):
        return False
    return kind.__module__.split(".")[0] == "normxlogit" or (_lies_in(kind, PYTHON) and not _lies_in(kind, PACKAGES))


def _lies_in(kind: type, folders: tuple[str, ...]) -> bool:
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return file is not None and any(Path(file).is_relative_to(folder) for folder in folders)
