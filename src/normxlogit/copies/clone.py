"""Copies of a model's structure that share its weights.

Everything that the library does to a model (recording, switching the attention kernel, cutting the head off) it does
to such a copy. The caller's model is only read.
"""

import copy
import functools
import operator
import types
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel

from ..errors import UnsupportedModelError
from .snapshot import TABLES

BOUND = (types.FunctionType, types.MethodType, functools.partial, tuple)
"""What may be bound to a module, or be a compiled form of what is, or hold such."""

PLAIN = frozenset((bool, int, float, str, type(None)))

HELD = (dict, list, set, OrderedDict, defaultdict)
"""What a model may keep on itself and change while it reads; a copy has its own."""

HOLDING = frozenset((*HELD, tuple))

FORWARD_HOOKS = ("_forward_hooks", "_forward_pre_hooks")


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
        if getattr(model, "active_peft_config", None) is not None and model.active_peft_config.is_prompt_learning:  # type: ignore[union-attr]
            raise UnsupportedModelError(
                "prompt-learning adapters put virtual tokens before the text, which no token of the text stands for; "
                "use an adapter that lives in the weights, such as LoRA"
            )
        model = _uncompiled(model.get_base_model())  # type: ignore[operator]
    if any(kind.__name__ == "FSDPModule" for kind in type(model).__mro__):
        raise UnsupportedModelError(
            "the weights of a model that was given to fully_shard are in parts, in other processes too; explain a "
            "model with whole ones, as of torch.distributed.checkpoint.state_dict.get_model_state_dict(model, "
            "options=StateDictOptions(full_state_dict=True))"
        )
    return model


def is_wrapped(model: nn.Module) -> bool:
    """Return whether a model is called through a wrapper, which may do more."""
    return unwrapped(model) is not _uncompiled(model)


def returning_attention(model: nn.Module) -> nn.Module:
    """Return a clone whose attention returns its probabilities, which fused kernels do not."""
    copy = clone(model)
    if (config := getattr(copy, "config", None)) is not None:
        config._attn_implementation = "eager"
    return copy


def clone(model: nn.Module) -> nn.Module:
    """Copy every module object of `model` and no tensor.

    The copy has its own hook tables, configuration and mode (evaluation), and the original's parameters and buffers,
    so that changes to the weights in place show in both. What was compiled is plain again, for hooks to be seen.
    Weights that were made in inference mode, which autograd refuses, are other tensors on the same storage.
    """
    twins: dict[int, Any] = {}
    configs: dict[int, Any] = {}
    plain = {id(module): _uncompiled(module) for module in model.modules()}
    for module in {id(module): module for module in plain.values()}.values():
        twins[id(module)] = shallow_copy(module)
    for path, module in plain.items():
        twins[path] = twins[id(module)]
    made = list({id(twin): twin for twin in twins.values()}.values())
    from_transformers = isinstance(unwrapped(model), PreTrainedModel)
    _own_containers(made, twins)
    _leave_inference_mode(made)
    for copied in made:
        state = copied.__dict__
        state["_modules"] = {name: twins.get(id(child)) for name, child in state["_modules"].items()}
        state["training"] = False
        state.pop("_compiled_call_impl", None)
        for name, value in state.items():
            if type(value) in PLAIN or (name in TABLES and name not in FORWARD_HOOKS):
                continue
            if isinstance(value, PretrainedConfig):
                state[name] = _own_config(value, state, configs, from_transformers)
            elif name in FORWARD_HOOKS:
                if value:
                    state[name] = type(value)((key, _rebound(hook, twins)) for key, hook in value.items())
            elif id(value) in twins or isinstance(value, BOUND):
                state[name] = _rebound(value, twins)
    copied_model: nn.Module = twins[id(model)]
    return copied_model


def _leave_inference_mode(made: list[nn.Module]) -> None:
    """Replace the weights of copied modules that were made in inference mode; tied ones stay tied."""
    aliases: dict[int, Tensor] = {}
    for copied in made:
        for table in (vars(copied)["_parameters"], vars(copied)["_buffers"]):
            for name, value in table.items():
                if value is not None and value.is_inference() and type(value) in (Tensor, nn.Parameter):
                    table[name] = aliases.setdefault(id(value), _without_inference(value))


def _without_inference(value: Tensor) -> Tensor:
    """Return another tensor on the same storage that autograd accepts."""
    with torch.inference_mode(False):
        alias = torch.empty(0, dtype=value.dtype, device=value.device)
        alias.set_(value.untyped_storage(), value.storage_offset(), value.shape, value.stride())
        return nn.Parameter(alias, requires_grad=False) if isinstance(value, nn.Parameter) else alias


def _own_config(
    config: PretrainedConfig, state: dict[str, Any], configs: dict[int, Any], from_transformers: bool
) -> Any:
    copied = copy.deepcopy(config, configs)
    if from_transformers:
        copied.return_dict = True  # the form of the output, which is read by name here
    if state.get("layers_are_rescaled") is False:  # RWKV would halve the caller's weights at its first call
        copied.rescale_every = 0
    return copied


def override_forward(model: nn.Module, forward: Callable[..., Any]) -> None:
    """Replace the forward of a clone.

    Args:
        model: The clone, and what is cloned from it.
        forward: Called with the model's own forward, bound to the model that is called, and the inputs by name.
    """
    name = "_old_forward" if "_old_forward" in model.__dict__ else "forward"  # accelerate moves it when it offloads
    original = model.__dict__.get(name)
    if original is None:
        original = types.MethodType(type(model).forward, model)
    model.__dict__["_forward_before"] = original  # on the instance, for clones to bind it to themselves

    def overriding(self: nn.Module, *args: Any, **inputs: Any) -> Any:
        return forward(self.__dict__["_forward_before"], *args, **inputs)

    model.__dict__[name] = types.MethodType(overriding, model)


def one_choice_each(model: nn.Module) -> None:
    """Let a clone of a multiple-choice model read (B, T) and answer (B, 1): every row as a question of one choice."""

    def forward(original: Callable[..., Any], **inputs: Any) -> Any:
        return original(**{k: v[:, None] if isinstance(v, Tensor) and v.ndim > 1 else v for k, v in inputs.items()})

    override_forward(model, forward)


def shallow_copy(module: nn.Module) -> nn.Module:
    """Return a second object for a module, with the same parameters and children."""
    copied: nn.Module = module.__class__.__new__(module.__class__)
    copied.__dict__.update(_own_tables(module))
    return copied


def _own_tables(module: nn.Module) -> dict[str, Any]:
    """Return the module's attributes, with torch's own tables (parameters, children, hooks) copied."""
    return {
        name: value.copy() if name in TABLES and isinstance(value, dict) else value
        for name, value in module.__dict__.items()
    }


def _uncompiled(module: nn.Module) -> nn.Module:
    """Return the module inside the one that `torch.compile` puts around it."""
    inner = module.__dict__.get("_modules", {}).get("_orig_mod")
    if inner is None:
        return module
    if module._forward_hooks or module._forward_pre_hooks:
        raise UnsupportedModelError(
            f"hooks are on what torch.compile put around a {type(inner).__name__}; put them on the module itself, "
            "before it is compiled"
        )
    return _uncompiled(inner)


def _rebound(value: Any, twins: dict[int, nn.Module]) -> Any:
    """Bind a method stored on an instance (accelerate does that) to the copy instead of the original, uncompiled."""
    if isinstance(value, types.FunctionType) and "_torchdynamo_orig_callable" in value.__dict__:
        while isinstance(value, types.FunctionType):  # down to the method that was compiled
            inner = value.__dict__.get("_torchdynamo_orig_callable") or value.__dict__.get("__wrapped__")
            if inner is None:
                break
            value = inner
    if id(value) in twins:
        return twins[id(value)]
    if isinstance(value, types.MethodType):
        owner = twins.get(id(value.__self__))
        return value if owner is None else types.MethodType(value.__func__, owner)
    if isinstance(value, functools.partial):
        function, *arguments = (_rebound(part, twins) for part in (value.func, *value.args))
        keywords = {name: _rebound(part, twins) for name, part in value.keywords.items()}
        return functools.partial(function, *arguments, **keywords)
    if type(value) is tuple:
        parts = tuple(_rebound(part, twins) for part in value)
        return value if all(map(operator.is_, parts, value)) else parts
    return _with_own_cells(value, twins) if isinstance(value, types.FunctionType) else value


def _with_own_cells(function: types.FunctionType, twins: dict[int, Any]) -> types.FunctionType:
    """Return a function whose closure and defaults refer to the copies."""
    filled = [cell for cell in function.__closure__ or () if content_of(cell) is not None]
    contents = (*map(content_of, filled), *(function.__defaults__ or ()))
    if not any(_refers(part, twins) for part in contents):
        return function
    cells = {id(cell): types.CellType(_rebound(content_of(cell), twins)) for cell in filled}
    closure = tuple(cells.get(id(cell), cell) for cell in function.__closure__ or ())
    defaults = tuple(_rebound(part, twins) for part in function.__defaults__ or ()) or None
    copied = types.FunctionType(function.__code__, function.__globals__, function.__name__, defaults, closure)
    copied.__kwdefaults__, copied.__qualname__, copied.__module__ = (
        function.__kwdefaults__,
        function.__qualname__,
        function.__module__,
    )
    copied.__dict__.update(function.__dict__)
    return copied


def content_of(cell: types.CellType) -> Any:
    """Return what a cell of a closure holds, None if nothing yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _refers(value: Any, twins: dict[int, Any]) -> bool:
    """Return whether a value is one that was copied, or a method of one."""
    return id(value) in twins or (isinstance(value, types.MethodType) and id(value.__self__) in twins)


def _own_containers(made: list[nn.Module], twins: dict[int, Any]) -> None:
    """Copy the containers of copied modules, before functions that refer to them are bound."""
    held: list[Any] = []
    for copied in made:
        for name, value in copied.__dict__.items():
            if type(value) in HOLDING and name not in TABLES:
                _copy_held(value, twins, held)
    for container in held:
        _bind_inside(container, twins)


def _copy_held(value: Any, twins: dict[int, Any], copies: list[Any]) -> None:
    """Copy the containers that are in a value, or are it, and list the copies."""
    if type(value) in HELD:
        if id(value) in twins:
            return
        twins[id(value)] = value.copy()
        copies.append(twins[id(value)])
    elif type(value) is not tuple:
        return
    for part in value.values() if isinstance(value, dict) else value:
        _copy_held(part, twins, copies)


def _bind_inside(container: Any, twins: dict[int, Any]) -> None:
    """Replace the contents of a copied container by their copies."""
    if isinstance(container, dict):
        container.update({key: _rebound(part, twins) for key, part in container.items()})
    elif isinstance(container, list):
        container[:] = [_rebound(part, twins) for part in container]
    else:
        parts = [_rebound(part, twins) for part in container]
        container.clear()
        container.update(parts)
