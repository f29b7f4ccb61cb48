"""Snapshots of a module tree, to detect changed modules, weights, hooks, adapters and settings."""

import dataclasses
import types
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig

from ..compat import RECORDING_MARK, RECORDING_MODULE

TABLES = frozenset(nn.Module().__dict__)
"""Names of torch's own attributes of a module: its parameters, children and hooks."""

Attributes = dict[str, Any]
"""The attributes of a module, by name."""

CONTAINERS = (dict, list, set, tuple)

PLAIN_TYPES = frozenset((bool, int, float, str, type(None), torch.dtype, torch.device, Tensor, nn.Parameter))

NOT_COMPARED = (Tensor, nn.Module, types.ModuleType)
"""Values that are compared by identity."""

NOT_COMPARED_FROM = ("accelerate.", "bitsandbytes.", "logging", "threading", "torch.", "transformers.cache_utils")
"""Packages whose objects change themselves in passes, or do not affect outputs."""


class Snapshot:
    """The attributes of every module of a tree at one moment; weights are compared by identity, not by value.

    Args:
        model: The tree.
        configs: Whether configurations are compared, too.
    """

    def __init__(self, model: nn.Module, *, configs: bool = True) -> None:
        self._modules = list(model.modules())
        self._classes = list(map(type, self._modules))
        self._containers = _containers([module.__dict__ for module in self._modules], configs)
        self._remember()

    def _remember(self) -> None:
        """Copy all containers as they are, and note what a comparison of the copies would not see."""
        self._before = [container.copy() for container in self._containers]
        entries = list(chain.from_iterable(map(_tensor_entries, self._containers)))
        # Python compares two tensors of one element by their value, so that these are looked at one by one.
        self._single_elements = [entry for entry in entries if entry.tensor.numel() < 2]
        # Copies of tensors that were created in inference mode share the storage, but are other tensors.
        in_inference_mode = (entry.tensor for entry in entries if entry.tensor.is_inference())
        self._storage_addresses = [(tensor, tensor.data_ptr()) for tensor in in_inference_mode]

    def unchanged(self) -> bool:
        """Return whether nothing changed except modes, values of weights and transformers' own recording hooks."""
        if any(tensor.data_ptr() != address for tensor, address in self._storage_addresses):
            return False
        if list(map(type, self._modules)) != self._classes:
            return False
        replaced = [entry for entry in self._single_elements if entry.table.get(entry.key) is not entry.tensor]
        if _equal_contents(self._containers, self._before):
            return not replaced
        # The fast comparison of whole dictionaries, in C, counts what is harmless as a change.
        current, earlier = list(map(_without_harmless, self._containers)), list(map(_without_harmless, self._before))
        # Tensors on the meta device stand for offloaded weights, and are replaced in a pass, see `_without_harmless`.
        if not _equal_contents(current, earlier) or not all(entry.tensor.is_meta for entry in replaced):
            return False
        self._remember()  # so that the next comparison is a fast one again
        return True


class _TensorEntry(NamedTuple):
    """A tensor in a table."""

    table: dict[Any, Any]
    key: Any
    tensor: Tensor


def _tensor_entries(table: Any) -> list[_TensorEntry]:
    """Return the tensors that a table holds; none of another container."""
    if not isinstance(table, dict):
        return []
    return [_TensorEntry(table, key, value) for key, value in table.items() if isinstance(value, Tensor)]


def _equal_contents(current: Any, earlier: Any) -> bool:
    """Return whether two containers are equal; tensors in them are if they are one tensor."""
    try:
        return bool(current == earlier)
    except Exception:  # different tensors compare element by element, and may be on different devices
        return False


def _containers(states: list[Attributes], configs: bool) -> list[Any]:
    """Return the containers whose content is compared.

    Args:
        states: The attributes of each module.
        configs: Whether those of configurations count.

    Returns:
        These, the containers in them at any depth, and the attributes of objects in them; of an object that holds
        settings, what is inside its attributes, too.
    """
    containers: list[Any] = []
    to_visit: list[Any] = [*states]
    visited: set[int] = set()
    for value in to_visit:  # the list grows while it is read
        container = value if isinstance(value, CONTAINERS) else _attributes(value, configs)
        if container is None or id(container) in visited:
            continue
        visited.add(id(container))
        if not isinstance(container, tuple):  # it cannot change
            containers.append(container)
        if container is value or _holds_settings(value):
            to_visit += _parts_inside(container)
    return containers


def _parts_inside(container: Any) -> list[Any]:
    """Return what a container holds that may hold more."""
    parts = container.values() if isinstance(container, dict) else container
    return [part for part in parts if part.__class__ not in PLAIN_TYPES]


def _attributes(value: Any, configs: bool) -> Attributes | None:
    """Return the attributes of an object that may affect an output, None for any other object."""
    if callable(value) or isinstance(value, NOT_COMPARED) or type(value).__module__.startswith(NOT_COMPARED_FROM):
        return None
    return None if isinstance(value, PretrainedConfig) and not configs else getattr(value, "__dict__", None)


def _holds_settings(value: Any) -> bool:
    """Return whether what is inside an object's attributes is compared, too, as it holds settings.

    That is a dataclass, a configuration (whatever has `to_dict`), or an object whose own class has no public methods.
    """
    if dataclasses.is_dataclass(value) or hasattr(value, "to_dict"):
        return True
    return not any(callable(member) for name, member in vars(type(value)).items() if not name.startswith("_"))


def _without_harmless(container: Any) -> Any:
    """Return a table without what may change: modes, recording hooks, and which tensors stand for offloaded weights."""
    if not isinstance(container, dict):
        return container
    is_of_module = "_parameters" in container
    left_out = (RECORDING_MARK, "training") if is_of_module else ()
    return {
        # accelerate makes a new tensor on the meta device each time that it offloads a weight.
        name: (value.shape, value.dtype) if isinstance(value, Tensor) and value.is_meta else value
        for name, value in container.items()
        if name not in left_out and getattr(value, "__module__", "") != RECORDING_MODULE
    }
