"""Snapshots of a module tree, to detect changed modules, weights, hooks, adapters and settings."""

import copy
import dataclasses
import types
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig

RECORDING = "transformers.utils.output_capturing"
"""The module of the hooks that transformers adds for `output_hidden_states` and leaves on the model."""
INSTALLED_MARK = "_output_capturing_hooks_installed"


TABLES = frozenset(nn.Module().__dict__)
"""Names of torch's own attributes of a module: its parameters, children and hooks."""

MUTABLE = (dict, list, set)

CONTAINERS = (*MUTABLE, tuple)

PLAIN_TYPES = frozenset((bool, int, float, str, type(None), torch.dtype, torch.device, Tensor, nn.Parameter))

NOT_COMPARED = (Tensor, nn.Module, PretrainedConfig, types.ModuleType)
"""Types that are compared in another way, or by identity."""

NOT_COMPARED_FROM = ("accelerate.", "bitsandbytes.", "logging", "threading", "torch.", "transformers.cache_utils")
"""Packages whose objects change themselves in passes, or do not affect outputs."""


NamedTensor = tuple[dict[str, Any], str, Tensor]
"""A table of a module, and the name of a tensor in it."""


class _AnyValue:
    """A value that equals every other, for attributes that are not compared, such as the training mode."""

    def __eq__(self, _: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


ANY_VALUE = _AnyValue()

EMPTY_TABLE: dict[str, Any] = {}
"""A stand-in for the empty tables of modules, which saves copying each of them."""


class Snapshot:
    """The attributes of every module of a tree at one moment, to be compared with later ones.

    Weights are compared by identity, not by value: what shares them follows their values. The comparison is one
    comparison of dictionaries, in C: 0.1 ms for the 231 modules of BERT-base.

    Args:
        configs: Whether the configurations' contents are part of it.
    """

    def __init__(self, model: nn.Module, *, configs: bool = True) -> None:
        self._modules = list(model.modules())
        self._classes = list(map(type, self._modules))
        self._states = [module.__dict__ for module in self._modules]
        self._states_before = [_copied_containers(state) for state in self._states]
        self._nested = _nested_containers(self._states)
        self._nested_before = [value.copy() for value in self._nested]
        tensors = list(_named_tensors(self._states))
        self._single_elements = _single_element_tensors(tensors)  # compared by identity
        # Copies of tensors that were created in inference mode share the storage, but are other tensors.
        self._storage_addresses = [(value, value.data_ptr()) for _, _, value in tensors if value.is_inference()]
        values = (value for state in self._states for value in state.values()) if configs else ()
        distinct_configs = {id(value): value for value in values if isinstance(value, PretrainedConfig)}
        self._settings = [config.__dict__ for config in distinct_configs.values()]
        self._settings_before = copy.deepcopy(self._settings)

    def unchanged(self) -> bool:
        """Return whether nothing changed except modes, values of weights and transformers' own recording hooks."""
        if any(value.data_ptr() != address for value, address in self._storage_addresses):
            return False
        if list(map(type, self._modules)) != self._classes:
            return False
        if not _equal_contents(self._nested, self._nested_before):
            return False
        if not _equal_contents(self._settings, self._settings_before):
            return False
        if _equal_contents(self._states, self._states_before):  # single elements by value
            return all(table.get(name) is value for table, name, value in self._single_elements)
        return self._accept_harmless_changes()

    def _accept_harmless_changes(self) -> bool:
        """Return whether only recording hooks or offloaded weights changed; if so, update the snapshot.

        The fast comparison of whole dictionaries counts these as changes.
        """
        current, earlier = (list(map(_without_harmless, states)) for states in (self._states, self._states_before))
        if not _equal_contents(current, earlier):
            return False
        if any(table.get(name) is not value for table, name, value in self._single_elements if not value.is_meta):
            return False
        self._states_before = [_copied_containers(state) for state in self._states]
        self._single_elements = _single_element_tensors(_named_tensors(self._states))
        return True


def _equal_contents(current: Any, earlier: Any) -> bool:
    """Return whether two containers are equal; tensors in them are if they are one tensor."""
    try:
        return bool(current == earlier)
    except Exception:  # different tensors compare element by element, and may be on different devices
        return False


def _copied_containers(state: dict[str, Any]) -> dict[str, Any]:
    """Return a module's attributes, with copies of the containers that may change in place."""
    copied = {**state, "training": ANY_VALUE}
    for name, value in state.items():
        if value.__class__ not in PLAIN_TYPES and isinstance(value, MUTABLE):
            copied[name] = value.copy() if value or not isinstance(value, dict) else EMPTY_TABLE
    return copied


def _nested_containers(states: list[dict[str, Any]]) -> list[Any]:
    """Return the containers, and the attributes of objects, that modules hold at any depth.

    Objects are compared by their attributes; what is inside those is listed too where the object holds settings.
    """
    containers: list[Any] = []
    waiting = [
        value
        for state in states
        for name, value in state.items()
        if value.__class__ not in PLAIN_TYPES and name not in TABLES
    ]
    copied = {id(value) for value in waiting if isinstance(value, CONTAINERS)}  # by `_copied_containers`
    visited: set[int] = set()
    for value in waiting:
        inside = value if isinstance(value, CONTAINERS) else _attributes(value)
        if inside is None or id(inside) in visited:
            continue
        visited.add(id(inside))
        if not isinstance(inside, tuple) and id(inside) not in copied:
            containers.append(inside)
        if inside is value or _holds_settings(value):
            parts = inside.values() if isinstance(inside, dict) else inside
            waiting += [part for part in parts if part.__class__ not in PLAIN_TYPES]
    return containers


def _attributes(value: Any) -> dict[str, Any] | None:
    """Return the attributes of an object that may affect an output, None for any other object."""
    if callable(value) or isinstance(value, NOT_COMPARED) or type(value).__module__.startswith(NOT_COMPARED_FROM):
        return None
    return getattr(value, "__dict__", None)


def _holds_settings(value: Any) -> bool:
    """Return whether an object is one of settings: a dataclass, or without methods but those for reading it."""
    if dataclasses.is_dataclass(value) or hasattr(value, "to_dict"):
        return True
    return not any(callable(member) for name, member in vars(type(value)).items() if not name.startswith("_"))


def _named_tensors(states: list[dict[str, Any]]) -> Iterator[NamedTensor]:
    """Yield all tensors that are attributes, parameters or buffers of modules."""
    for state in states:
        for table in (state, state.get("_parameters", {}), state.get("_buffers", {})):
            yield from ((table, name, value) for name, value in table.items() if isinstance(value, Tensor))


def _single_element_tensors(tensors: Iterable[NamedTensor]) -> list[NamedTensor]:
    """Return the single-element tensors, which comparing dictionaries would compare by value."""
    return [named for named in tensors if named[2].numel() < 2]


def _without_harmless(state: dict[str, Any]) -> dict[str, Any]:
    """Return a module's attributes without recording hooks, and placeholders of offloaded weights as their kinds."""
    hooks = state.get("_forward_hooks", {}).values()
    kinds = {
        table: {
            name: (weight.shape, weight.dtype) if weight is not None and weight.is_meta else weight
            for name, weight in state.get(table, {}).items()
        }
        for table in ("_parameters", "_buffers")  # accelerate renews the placeholders
    }
    own_hooks = [hook for hook in hooks if getattr(hook, "__module__", "") != RECORDING]
    others = {name: value for name, value in state.items() if name not in (INSTALLED_MARK, "training")}
    return {**others, **kinds, "_forward_hooks": own_hooks}
