"""Copies of a model's structure that share its weights.

Everything that the library does to a model (recording, switching the attention kernel, cutting the head off) it does
to such a copy. The caller's model is only read.
"""

import copy
import functools
import types
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel

from ..errors import UnsupportedModelError

__all__ = [
    "clone",
    "instead_of",
    "is_wrapped",
    "one_choice_each",
    "override_forward",
    "replaced",
    "shallow_copy",
    "unwrapped",
]


BOUND = (types.FunctionType, types.MethodType, functools.partial)
"""What may be bound to a module, or be a compiled form of what is."""


def unwrapped(model: nn.Module) -> nn.Module:
    """Return the model inside a compiled or PEFT-wrapped one; adapters stay where they were injected.

    Raises:
        UnsupportedModelError: If the adapter adds virtual tokens to the input, or is switched on by the input.
    """
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
    return model


def is_wrapped(model: nn.Module) -> bool:
    """Return whether a model is called through something else than itself, which may do more."""
    return unwrapped(model) is not _uncompiled(model)


def clone(model: nn.Module) -> nn.Module:
    """Copy every module object of `model` and no tensor.

    The copy has its own hook tables, configuration and mode (evaluation), and the original's parameters and buffers,
    so that changes to the weights in place show in both. What was compiled is plain again, for hooks to be seen.
    """
    twins: dict[int, nn.Module] = {}
    configs: dict[int, Any] = {}
    plain = {id(module): _uncompiled(module) for module in model.modules()}
    for module in {id(module): module for module in plain.values()}.values():
        twins[id(module)] = shallow_copy(module)
    for place, module in plain.items():
        twins[place] = twins[id(module)]
    for copied in {id(twin): twin for twin in twins.values()}.values():
        state = copied.__dict__
        state["_modules"] = {name: twins.get(id(child)) for name, child in state["_modules"].items()}
        state["training"] = False
        state.pop("_compiled_call_impl", None)
        for name, value in state.items():
            if isinstance(value, PretrainedConfig):
                state[name] = copy.deepcopy(value, configs)
                if isinstance(unwrapped(model), PreTrainedModel):
                    state[name].return_dict = True  # the form of the output, which is read by name here
                if state.get("layers_are_rescaled") is False:  # RWKV would halve the caller's weights at its first call
                    state[name].rescale_every = 0
            elif isinstance(value, BOUND):
                state[name] = _rebound(value, twins)
    return twins[id(model)]


def replaced(model: nn.Module, path: str, new: nn.Module) -> nn.Module:
    """Return a copy of `model` with the module at `path` replaced; only the modules on the way to it are copied."""
    if not path:
        return new
    top = shallow_copy(model)
    name, _, rest = path.partition(".")
    top.__dict__["_modules"][name] = replaced(model._modules[name], rest, new)  # type: ignore[arg-type]
    twins = {id(model): top}
    for key, value in top.__dict__.items():
        top.__dict__[key] = _rebound(value, twins)
    return top


def override_forward(model: nn.Module, forward: Callable[..., Any]) -> None:
    """Let a clone be called in another way.

    Args:
        model: The clone, and what is cloned from it.
        forward: Called with the model's own forward, bound to the model that is called, and the inputs by name.
    """
    name = "_old_forward" if "_old_forward" in model.__dict__ else "forward"  # accelerate moves it when it offloads
    own = model.__dict__.get(name)
    if own is None:
        own = types.MethodType(type(model).forward, model)
    model.__dict__["_forward_before"] = own  # on the instance, for clones to bind it to themselves

    def overriding(self: nn.Module, *args: Any, **inputs: Any) -> Any:
        return forward(self.__dict__["_forward_before"], *args, **inputs)

    model.__dict__[name] = types.MethodType(overriding, model)


def one_choice_each(model: nn.Module) -> None:
    """Let a clone of a multiple-choice model read (B, T) and answer (B, 1): every row as a question of one choice."""

    def forward(own: Callable[..., Any], **inputs: Any) -> Any:
        return own(**{k: v[:, None] if isinstance(v, Tensor) and v.ndim > 1 else v for k, v in inputs.items()})

    override_forward(model, forward)


def instead_of(layer: nn.Module, forward: Callable[..., Any]) -> nn.Module:
    """Return a module with a layer's attributes that does something else; the layer's hooks are the layer's own."""
    found = shallow_copy(layer)
    found.__dict__["_modules"]["_layer"] = layer  # a child, for copies of this to have a copy of it
    found.__dict__["_forward_hooks"], found.__dict__["_forward_pre_hooks"] = OrderedDict(), OrderedDict()

    def instead(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        return forward(self._modules["_layer"], *args, **kwargs)

    found.__dict__["forward"] = types.MethodType(instead, found)
    return found


def shallow_copy(module: nn.Module) -> nn.Module:
    """Return a second object for a module, with the same parameters and children."""
    copied: nn.Module = module.__class__.__new__(module.__class__)
    copied.__dict__.update(_own_tables(module))
    return copied


def _own_tables(module: nn.Module) -> dict[str, Any]:
    """Return the module's attributes, with torch's own tables (parameters, children, hooks) copied."""
    return {
        name: value.copy() if isinstance(value, dict) and name.startswith("_") else value
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
    if isinstance(value, types.MethodType) and id(value.__self__) in twins:
        return types.MethodType(value.__func__, twins[id(value.__self__)])
    if isinstance(value, functools.partial) and any(id(a) in twins for a in value.args):
        arguments = (twins.get(id(a), a) for a in value.args)
        return functools.partial(value.func, *arguments, **value.keywords)
    return value
