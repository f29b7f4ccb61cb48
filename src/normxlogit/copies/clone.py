"""Copies of a model's structure that share its weights: all that is done to a model is done to such a copy."""

import copy
import functools
import itertools
import types
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel

from ..compat import RECORDING_MARK, RECORDING_MODULE, recorder_classes
from ..errors import UnsupportedModelError
from .snapshot import TABLES, Attributes

MUTABLE_CONTAINERS = (dict, list, set, OrderedDict, defaultdict)
"""Containers that a forward pass may change; a copy has its own."""

REBOUND = (types.FunctionType, types.MethodType, functools.partial, tuple)
"""Values that may refer to modules."""

Forward = Callable[..., Any]
"""The forward of a module, or a function that is called in its place."""

Copies = dict[int, Any]
"""The copies of modules and containers, by the id of the original."""


def unwrapped(model: nn.Module) -> nn.Module:
    """Return the model inside a compiled or PEFT-wrapped one; adapters stay where they were injected."""
    model = _uncompiled(model)
    if hasattr(model, "get_base_model") and hasattr(model, "peft_config"):
        configs: Any = model.peft_config
        if any(getattr(config, "alora_invocation_tokens", None) for config in configs.values()):
            raise UnsupportedModelError(
                "an activated LoRA begins where its invocation tokens stand in the text, which is decided outside the "
                "model that it was put into; use an adapter that lives in the weights, such as LoRA"
            )
        if _reads_virtual_tokens(model):
            raise UnsupportedModelError(
                "PEFT's prompt learning puts virtual tokens before a text, outside of the model that is explained; use "
                "an adapter that lives in the weights, such as LoRA"
            )
        model = _uncompiled(model.get_base_model())  # type: ignore[operator]
    if any(cls.__name__ == "FSDPModule" for cls in type(model).__mro__):
        raise UnsupportedModelError(
            "the weights of a model that was given to fully_shard are in parts, in other processes too; explain a "
            "model with whole ones (full_state_dict=True)"
        )
    return model


def _reads_virtual_tokens(model: nn.Module) -> bool:
    """Return whether the active adapter of a PEFT-wrapped model puts virtual tokens before every text."""
    config: Any = getattr(model, "active_peft_config", None)
    forward = model.__dict__.get("forward")  # that of the model inside where the adapter is disabled
    return config is not None and config.is_prompt_learning and getattr(forward, "__self__", model) is model


def is_wrapped(model: nn.Module) -> bool:
    """Return whether a model is wrapped by an adapter library; `torch.compile` does not count."""
    return unwrapped(model) is not _uncompiled(model)


def clone(model: nn.Module) -> nn.Module:
    """Return a structural copy of a model, in evaluation mode: its modules are copied, its tensors are shared.

    What was compiled is plain again, for hooks to be seen.

    Args:
        model: Any module; it is only read.

    Raises:
        UnsupportedModelError: If hooks are on what `torch.compile` put around a module.
    """
    module_and_uncompiled = [(module, _uncompiled(module)) for module in model.modules()]
    copies: Copies = {}
    for original in {id(inner): inner for _, inner in module_and_uncompiled}.values():
        copies[id(original)] = _shallow_copy(original)
    tables: list[Attributes] = [module.__dict__ for module in copies.values()]  # the attributes of each copy
    # A compiled module and the one inside it have the same copy, under the ids of both.
    for module, inner in module_and_uncompiled:
        copies[id(module)] = copies[id(inner)]
    from_transformers = isinstance(unwrapped(model), PreTrainedModel)
    _copy_containers(tables, copies)
    _leave_inference_mode(tables)
    configs: dict[int, Any] = {}  # the memo of `copy.deepcopy`
    for attributes in tables:
        _rebind_attributes(attributes, copies)
        for name, value in attributes.items():
            if isinstance(value, PretrainedConfig):
                attributes[name] = _copy_config(value, attributes, configs, from_transformers)
    return copies[id(model)]


def _copy_containers(tables: list[Attributes], copies: Copies) -> None:
    """Enter a copy of each container that is an attribute of a module, which several modules may share."""
    for name, value in itertools.chain.from_iterable(table.items() for table in tables):
        if type(value) in MUTABLE_CONTAINERS and name not in TABLES:
            _rebind_container(value, copies)


def _shallow_copy(module: nn.Module) -> nn.Module:
    """Return a module of the same class with the same attributes, and tables of its own."""
    copied = module.__class__.__new__(module.__class__)
    for name, value in module.__dict__.items():
        copied.__dict__[name] = value.copy() if name in TABLES and isinstance(value, dict) else value
    return copied


def _rebind_attributes(attributes: Attributes, copies: Copies) -> None:
    """Replace modules of the original by their copies in the attributes of one, which is put in evaluation mode."""
    attributes["_modules"] = {name: copies.get(id(child)) for name, child in attributes["_modules"].items()}
    attributes["training"] = False
    # What `module.compile()` leaves: the compiled call, which runs the original.
    attributes.pop("_compiled_call_impl", None)
    if "use_nested_tensor" in attributes:  # of nn.TransformerEncoder: hooks cannot read nested tensors
        attributes["use_nested_tensor"] = False
    for name, value in attributes.items():
        attributes[name] = _rebind_attribute(name, value, copies)


def _rebind_attribute(name: str, value: Any, copies: Copies) -> Any:
    """Return an attribute of a copied module, in which modules of the original are replaced by their copies."""
    if name in ("_forward_hooks", "_forward_pre_hooks"):
        # A hook may be a method of a module, or hold one.
        return type(value)((key, _rebind(hook, copies)) for key, hook in value.items())
    if name in TABLES:  # it refers to no module of the original
        return value
    if id(value) in copies or isinstance(value, REBOUND):
        return _rebind_container(value, copies)
    return value


def _leave_inference_mode(tables: list[Attributes]) -> None:
    """Replace weights that were created in inference mode by aliases for autograd; tied weights stay tied."""
    aliases: dict[int, Tensor] = {}
    for attributes in tables:
        for table in (attributes["_parameters"], attributes["_buffers"]):
            for name, value in table.items():
                # A subclass, such as a quantised weight, could not be made again from its storage.
                if value is not None and value.is_inference() and type(value) in (Tensor, nn.Parameter):
                    table[name] = aliases.setdefault(id(value), _autograd_alias(value))


def _autograd_alias(value: Tensor) -> Tensor:
    """Return a tensor on the same storage that is not an inference tensor, so that autograd accepts it."""
    with torch.inference_mode(False):
        alias = torch.empty(0, dtype=value.dtype, device=value.device)
        alias.set_(value.untyped_storage(), value.storage_offset(), value.shape, value.stride())
        return nn.Parameter(alias, requires_grad=False) if isinstance(value, nn.Parameter) else alias


def _copy_config(
    config: PretrainedConfig, attributes: Attributes, configs: dict[int, Any], from_transformers: bool
) -> Any:
    """Return a copy of the configuration of a module.

    Args:
        config: The configuration.
        attributes: Those of the module.
        configs: The memo of `copy.deepcopy`, so that modules that share a configuration share its copy.
        from_transformers: Whether the model is one of transformers.
    """
    copied = copy.deepcopy(config, configs)
    if from_transformers:
        copied.return_dict = True  # the form of the output, which is read by name here
    if attributes.get("layers_are_rescaled") is False:  # RWKV would halve the caller's weights at its first call
        copied.rescale_every = 0
    return copied


def override_forward(model: nn.Module, forward: Forward) -> None:
    """Replace the forward of a clone, and of later clones of it, by a function that is given its own and the inputs.

    Args:
        model: A clone, which is changed.
        forward: Called with the clone's own forward, and the inputs.
    """
    # Where accelerate offloads a model, its forward moves the weights and calls this one.
    name = "_old_forward" if "_old_forward" in model.__dict__ else "forward"
    original = model.__dict__.get(name) or types.MethodType(type(model).forward, model)
    # Of a partial, a later clone replaces the model that `original` is bound to by itself, see `_rebind`.
    model.__dict__[name] = functools.partial(forward, original)


def _uncompiled(module: nn.Module) -> nn.Module:
    """Return the module inside the wrapper of `torch.compile`."""
    # In its own table: wrappers pass look-ups of attributes on to the module inside.
    inner = module.__dict__.get("_modules", {}).get("_orig_mod")
    if inner is None:
        return module
    if module._forward_hooks or module._forward_pre_hooks:
        raise UnsupportedModelError(
            f"hooks are on what torch.compile put around a {type(inner).__name__}; put them on the module itself, "
            "before it is compiled"
        )
    return _uncompiled(inner)


def _rebind(value: Any, copies: Copies) -> Any:
    """Return a value, such as a bound method, with copies for modules; a compiled function is plain again."""
    value = _uncompiled_function(value)
    if id(value) in copies:
        return copies[id(value)]
    if isinstance(value, types.MethodType) and id(value.__self__) in copies:
        return types.MethodType(value.__func__, copies[id(value.__self__)])
    if isinstance(value, functools.partial):
        function, *arguments = _rebind_each((value.func, *value.args), copies)
        keywords = {name: _rebind(part, copies) for name, part in value.keywords.items()}
        return functools.partial(function, *arguments, **keywords)
    if type(value) is tuple:
        return _rebind_each(value, copies)
    return _rebind_closure(value, copies) if isinstance(value, types.FunctionType) else value


def _rebind_each(values: Iterable[Any], copies: Copies) -> tuple[Any, ...]:
    """Return values with copies for modules."""
    return tuple(_rebind(value, copies) for value in values)


def _uncompiled_function(value: Any) -> Any:
    """Return the method inside a function that `torch.compile` made; anything else unchanged.

    Each function around it names the one inside it in one of two attributes.
    """
    inner = value
    if isinstance(value, types.FunctionType) and "_torchdynamo_orig_callable" not in value.__dict__:
        return value
    while isinstance(inner, types.FunctionType):
        value = inner
        inner = value.__dict__.get("_torchdynamo_orig_callable") or value.__dict__.get("__wrapped__")
    # The chain ends at a plain function, or at the method that was compiled.
    return value if inner is None else inner


def _rebind_closure(function: types.FunctionType, copies: Copies) -> types.FunctionType:
    """Return a function with a closure and defaults that refer to the copies."""
    cells, defaults = function.__closure__ or (), function.__defaults__ or ()
    contents = (*map(cell_content, cells), *defaults)
    owners = (content.__self__ if isinstance(content, types.MethodType) else content for content in contents)
    if not any(id(owner) in copies for owner in owners):
        return function
    closure = tuple(_rebind_cell(cell, copies) for cell in cells)
    new_defaults = _rebind_each(defaults, copies) or None
    copied = types.FunctionType(function.__code__, function.__globals__, function.__name__, new_defaults, closure)
    copied.__kwdefaults__, copied.__qualname__ = function.__kwdefaults__, function.__qualname__
    copied.__module__ = function.__module__
    copied.__dict__.update(function.__dict__)
    return copied


def _rebind_cell(cell: types.CellType, copies: Copies) -> types.CellType:
    """Return a cell of a closure with its content rebound; an empty one is shared."""
    content = cell_content(cell)
    return cell if content is None else types.CellType(_rebind(content, copies))


def cell_content(cell: types.CellType) -> Any:
    """Return the content of a cell of a closure, None if it is empty, as that of a variable without a value yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _rebind_container(value: Any, copies: Copies) -> Any:
    """Return a copy of a container, and of those in it, with rebound items; it may hold itself, see `copies`."""
    if type(value) is tuple:
        return tuple(_rebind_container(item, copies) for item in value)
    if id(value) in copies or type(value) not in MUTABLE_CONTAINERS:
        return _rebind(value, copies)
    copied = copies[id(value)] = value.copy()
    if isinstance(value, dict):
        copied.update({key: _rebind_container(item, copies) for key, item in value.items()})
    elif isinstance(value, list):
        copied[:] = [_rebind_container(item, copies) for item in value]
    else:
        copied.clear()
        copied.update([_rebind_container(item, copies) for item in value])
    return copied


# --- transformers' own recording of hidden states: hooks, and a registry of classes ----------------------------------


def register_recorders(model: nn.Module) -> None:
    """Register the classes of an unpickled model in transformers' registry of what returns hidden states."""
    registry = recorder_classes()
    for module in model.modules():
        if isinstance(module, PreTrainedModel):
            # As of a plain dict: transformers' own class of registry takes a model, and not the name of its class.
            dict.setdefault(registry, str(type(module)), getattr(module, "_can_record_outputs", None))


def without_recording_hooks(model: nn.Module) -> nn.Module:
    """Return a model without the hooks that transformers adds for `output_hidden_states`, which cannot be pickled."""
    if not any(_recording_hooks(module) for module in model.modules()):
        return model
    copied = clone(model)
    for module in copied.modules():
        for number in _recording_hooks(module):
            del module._forward_hooks[number]
        module.__dict__.pop(RECORDING_MARK, None)
    # A clone is in evaluation mode.
    return copied.train(model.training)


def _recording_hooks(module: nn.Module) -> list[int]:
    """Return the ids of transformers' recording hooks."""
    hooks = module._forward_hooks.items()
    return [number for number, hook in hooks if getattr(hook, "__module__", "") == RECORDING_MODULE]
