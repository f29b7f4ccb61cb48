"""Recording: notes on the nodes of a pass what the rules read and autograd does not save."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.overrides import TorchFunctionMode

from ..copies.clone import Forward
from ..copies.module_io import Inputs
from .conservation import Conservation
from .slopes import INPUT

_SAVING_OUTPUTS = frozenset(
    getattr(namespace, name)
    for namespace in (torch, Tensor, torch.special)
    for name in ("tanh", "sigmoid", "expm1", "expit", "log_softmax", "tanh_", "sigmoid_", "expm1_")
    if hasattr(namespace, name)
) | {torch.nn.functional.log_softmax}
"""Functions of which torch saves only the output, while their slopes read the input; `expit` is the sigmoid."""


class Recording(TorchFunctionMode):
    """Notes the inputs that the rules read on the nodes of a pass; constants of a pass that is proved become leaves.

    Torch calls it instead of each of its functions that is called in the block.

    Args:
        proof: The proof of the pass; None for a pass that is not proved.
    """

    def __init__(self, proof: Conservation | None = None) -> None:
        super().__init__()
        self.proof = proof

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        proof = self.proof
        switches_gradients = func is torch._C._set_grad_enabled
        saves_output = func in _SAVING_OUTPUTS
        if proof is not None:
            if switches_gradients or saves_output:  # what a pass without a recording would do otherwise
                proof.require_recording()
            args, kwargs = proof.as_leaves(getattr(func, "__name__", ""), args, kwargs)
        if switches_gradients:  # not called: what a model computes without gradients is part of its answer, too
            return None
        saved_input = _saved_input(func, args, kwargs) if saves_output else None
        result = func(*args, **kwargs)
        if isinstance(result, Tensor) and result.grad_fn is not None:
            _note(result.grad_fn, result, saved_input, proof)
        return result


def _note(node: Any, result: Tensor, saved_input: Tensor | None, proof: Conservation | None) -> None:
    """Note on the node of a result the input that it does not save, and what a proof needs."""
    if saved_input is not None:
        node.metadata[INPUT] = saved_input
    if proof is not None:
        proof.note(node, result)


def _saved_input(func: Any, args: Any, kwargs: Inputs) -> Tensor:
    """Return an empty tensor whose node saves the input of a function.

    It is this tensor that is kept, and not its node, which torch may empty when no tensor of it is left.
    """
    x = args[0] if args else kwargs["input"]
    in_place = func.__name__.endswith("_")
    # Saved before the function runs, which may write on it.
    return _Saved.apply(x.clone() if in_place else x)  # type: ignore[no-untyped-call]


def call_recorded(call: Forward, *args: Any, **kwargs: Any) -> Any:
    """Call a module with a `Recording`, which elsewhere would cost every operation some time."""
    with Recording():
        return call(*args, **kwargs)


class _Saved(Function):
    """Saves a tensor as autograd does, so that hooks of saved tensors, such as checkpoints, see it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.new_empty(0)


@contextmanager
def recorded(copy: nn.Module, proof: Conservation | None = None) -> Iterator[None]:
    """Run passes of a copy inside the block with a graph, recorded.

    Args:
        copy: The copy of the model.
        proof: The proof of the pass, of which the constants that the model adds become leaves; None for no proof.
    """
    with ExitStack() as stack, torch.enable_grad(), Recording(proof):
        if proof is not None:
            proof.watch(copy, stack)
        yield
