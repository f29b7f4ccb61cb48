"""Copies of a model's structure that share its weights.

Everything that the library does to a model (recording, switching the attention kernel, cutting the head off) it does
to such a copy. The caller's model is only read.
"""

import copy
import functools
import types
from typing import Any

from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel

from ..errors import UnsupportedModelError

__all__ = ["clone", "one_choice_each", "replaced", "shallow_copy", "unwrapped"]


def unwrapped(model: nn.Module) -> PreTrainedModel:
    """The `transformers` model inside a compiled or PEFT-wrapped one; adapters stay where they were injected.

    Raises:
        UnsupportedModelError: If there is none, or if the adapter adds virtual tokens to the input.
    """
    if hasattr(model, "_orig_mod"):  # torch.compile
        model = model._orig_mod  # type: ignore[assignment]
    if hasattr(model, "get_base_model") and hasattr(model, "peft_config"):
        if getattr(model, "active_peft_config", None) is not None and model.active_peft_config.is_prompt_learning:  # type: ignore[union-attr]
            raise UnsupportedModelError(
                "prompt-learning adapters put virtual tokens before the text, which no token of the text stands for; "
                "use an adapter that lives in the weights, such as LoRA"
            )
        model = model.get_base_model()  # type: ignore[operator]
    if not isinstance(model, PreTrainedModel):
        raise UnsupportedModelError(
            f"{type(model).__name__} is not a transformers model; an Explainer takes a PreTrainedModel, "
            "plain, compiled or wrapped by PEFT"
        )
    return model


def clone(model: nn.Module) -> nn.Module:
    """Copy every module object of `model` and no tensor.

    The copy has its own hook tables, configuration and mode (evaluation), and the original's parameters and buffers,
    so that changes to the weights in place show in both.
    """
    twins: dict[int, nn.Module] = {}
    configs: dict[int, Any] = {}
    for module in model.modules():
        twins[id(module)] = shallow_copy(module)
    for copied in twins.values():
        state = copied.__dict__
        state["_modules"] = {name: twins.get(id(child)) for name, child in state["_modules"].items()}
        state["training"] = False
        for name, value in state.items():
            if isinstance(value, PretrainedConfig):
                state[name] = copy.deepcopy(value, configs)
                if state.get("layers_are_rescaled") is False:  # RWKV would halve the caller's weights at its first call
                    state[name].rescale_every = 0
            else:
                state[name] = _rebound(value, twins)
    return twins[id(model)]


def replaced(model: nn.Module, path: str, new: nn.Module) -> nn.Module:
    """A copy of `model` with the module at `path` replaced; only the modules on the way to it are copied."""
    if not path:
        return new
    top = shallow_copy(model)
    name, _, rest = path.partition(".")
    top.__dict__["_modules"][name] = replaced(model._modules[name], rest, new)  # type: ignore[arg-type]
    twins = {id(model): top}
    for key, value in top.__dict__.items():
        top.__dict__[key] = _rebound(value, twins)
    return top


def one_choice_each(model: nn.Module) -> None:
    """Let a clone of a multiple-choice model read (B, T) and answer (B, 1): every row as a question of one choice."""

    def forward(self: nn.Module, **inputs: Any) -> Any:
        rows = {k: v[:, None] if isinstance(v, Tensor) and v.ndim > 1 else v for k, v in inputs.items()}
        return type(self).forward(self, **rows)

    name = "_old_forward" if "_old_forward" in model.__dict__ else "forward"  # accelerate moves it when it offloads
    model.__dict__[name] = types.MethodType(forward, model)


def shallow_copy(module: nn.Module) -> nn.Module:
    """A second object for a module, with the same parameters and children."""
    copied: nn.Module = module.__class__.__new__(module.__class__)
    copied.__dict__.update(_own_tables(module))
    return copied


def _own_tables(module: nn.Module) -> dict[str, Any]:
    """The module's attributes, with torch's own tables (parameters, children, hooks) copied."""
    return {
        name: value.copy() if isinstance(value, dict) and name.startswith("_") else value
        for name, value in module.__dict__.items()
    }


def _rebound(value: Any, twins: dict[int, nn.Module]) -> Any:
    """Bind a method stored on an instance (accelerate does that) to the copy instead of the original."""
    if isinstance(value, types.MethodType) and id(value.__self__) in twins:
        return types.MethodType(value.__func__, twins[id(value.__self__)])
    if isinstance(value, functools.partial) and any(id(a) in twins for a in value.args):
        arguments = (twins.get(id(a), a) for a in value.args)
        return functools.partial(value.func, *arguments, **value.keywords)
    return value
