"""Gradient checkpointing of modules of a copy: they save nothing, and run again in the backward pass.

Torch's own gives saved tensors out once, to torch's gradient, and not once more to what reads them in a hook on a node.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from .clone import Forward

Model = TypeVar("Model", bound=nn.Module)

Around = Callable[[], AbstractContextManager[Any]]


@contextmanager
def checkpointed(copy: nn.Module, paths: Iterable[str], around: Around = nullcontext) -> Iterator[None]:
    """Let modules, none inside another, save nothing in the block, and run again, each in `around`, when needed.

    The copy is used by no other pass while the graph is there.

    Args:
        copy: The copy.
        paths: The modules.
        around: Returns a context in which each runs again.
    """
    latest: dict[object, list[Tensor]] = {}  # of the call that ran again last, the tensors that it saved
    with ExitStack() as stack:
        for path in set(paths):
            module = copy.get_submodule(path)
            attributes = module.__dict__
            own_forward = attributes.get("forward")  # that another package put on this module, such as accelerate
            if own_forward is None:
                stack.callback(attributes.pop, "forward")
            else:
                stack.callback(attributes.update, forward=own_forward)
            attributes["forward"] = partial(_call_checkpointed, latest, around, module.forward)
        yield


def _call_checkpointed(
    latest: dict[object, list[Tensor]], around: Around, forward: Forward, *args: Any, **kwargs: Any
) -> Any:
    """Call a module's forward; its graph has numbers in the place of saved tensors, in the order of saving.

    When the backward pass asks for the tensor of a number, the forward runs again, and saves the tensors then.

    Args:
        latest: The tensors that the call that ran again last has saved, by a key of the call; it has one entry at most.
        around: Returns a context in which the forward runs again.
        forward: The module's forward.
        *args: Its arguments by position.
        **kwargs: Its arguments by name.
    """
    call = object()  # the key of this call
    shapes = list[torch.Size]()  # of the tensors that it would have saved
    states = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor) and value.requires_grad]
    versions = _versions(states)

    def pack(tensor: Tensor) -> int:
        """Return the number of a tensor that autograd saves."""
        shapes.append(tensor.shape)
        return len(shapes) - 1

    def unpack(number: int) -> Tensor:
        """Return the tensor of a number, from a second run of the forward."""
        if call not in latest:
            # The tensors of one call are kept at a time: to keep those of all is what costs memory.
            latest.clear()
            saved: list[Tensor] = []

            def keep(tensor: Tensor) -> None:  # weights as they are; with its graph, a state would not be freed
                saved.append(tensor if isinstance(tensor, nn.Parameter) else tensor.detach().clone())

            with torch.enable_grad(), around(), saved_tensors_hooks(keep, lambda kept: kept):
                forward(*args, **kwargs)
            if versions != _versions(states) or shapes != [tensor.shape for tensor in saved]:
                raise RuntimeError("a layer that runs again has another input, or computes something else")
            latest[call] = saved
        return latest[call][number]

    with saved_tensors_hooks(pack, unpack):
        return forward(*args, **kwargs)


def _versions(states: Iterable[Tensor]) -> list[int]:
    """Return how often each of some states was written on, as autograd counts it."""
    return [state._version for state in states]


def without_cache(copy: Model) -> Model:
    """Let a copy keep no cache of keys, which a layer that runs again would find; return it."""
    for module in copy.modules():
        config: Any = module.__dict__.get("config")
        if getattr(config, "use_cache", None):
            config.use_cache = False
    return copy
