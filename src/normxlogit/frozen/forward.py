"""Forward passes for a frozen backward pass: the one place that intercepts what a copy of the model computes.

Noted on the nodes is what the backward pass needs beside autograd's graph; the answer stays the model's own.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.overrides import TorchFunctionMode

from .conservation import Conservation
from .slopes import INPUT

_SAVING_OUTPUTS = frozenset(
    getattr(namespace, name)
    for namespace in (torch, Tensor, torch.special)
    for name in ("tanh", "sigmoid", "expm1", "expit", "log_softmax", "tanh_", "sigmoid_", "expm1_")
    if hasattr(namespace, name)
) | {torch.nn.functional.log_softmax}
"""Functions of which torch saves only the output."""


class Recording(TorchFunctionMode):
    """Notes on the nodes of a pass what the rules read and autograd does not save; constants are leaves of a proof."""

    def __init__(self, proof: Conservation | None = None) -> None:
        super().__init__()
        self.proof = proof

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, proof, x = kwargs or {}, self.proof, None
        noted = func in _SAVING_OUTPUTS or func is torch._C._set_grad_enabled
        if noted and proof is not None and (path := proof.path()) is not None:
            proof.recorded.add(path)
        if func is torch._C._set_grad_enabled:  # what a model computes without gradients is part of its answer, too
            return None
        if proof is not None:
            args, kwargs = proof.as_leaves(getattr(func, "__name__", ""), args, kwargs)
        if func in _SAVING_OUTPUTS:
            x = args[0] if args else kwargs["input"]
            x = _Saved.apply(x.clone() if func.__name__.endswith("_") else x)  # type: ignore[no-untyped-call]
        result = func(*args, **kwargs)
        if (x is not None or proof is not None) and isinstance(result, Tensor) and result.grad_fn is not None:
            node: Any = result.grad_fn
            if x is not None:
                node.metadata[INPUT] = x.grad_fn
            if proof is not None:
                proof.note(node, result)
        return result


def call_recorded(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a module with a `Recording`, which elsewhere would cost every operation some time."""
    with Recording():
        return call(*args, **kwargs)


class _Saved(Function):
    """Saves a tensor as autograd does, so that hooks of saved tensors see it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.new_empty(0)


@contextmanager
def recorded(copy: nn.Module, proof: Conservation | None = None) -> Iterator[None]:
    """Run passes of a copy inside the block with a graph; the constants of one that is proved are leaves of it."""
    with ExitStack() as stack, torch.enable_grad(), Recording(proof):
        if proof is not None:
            proof.watch(copy, stack)
        yield
