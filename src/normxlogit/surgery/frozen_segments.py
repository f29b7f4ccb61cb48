"""Gradient checkpointing of frozen passes: each layer keeps only its input, and runs again in the backward pass."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from torch import nn
from torch.utils.checkpoint import checkpoint


def run_again_in_the_backward_pass(
    module: nn.Module, sparing: Callable[[], bool], frozen: Callable[[], AbstractContextManager[Any]]
) -> None:
    """Run a module under gradient checkpointing in a sparing pass.

    Args:
        module: A layer of a clone, which is given another `forward`.
        sparing: Whether the pass that runs is frozen and is to keep little.
        frozen: Freezes what runs in its block: the layer's second run.
    """
    original = module.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        if not sparing():
            return original(*args, **kwargs)
        return checkpoint(
            original,
            *args,
            use_reentrant=False,
            preserve_rng_state=False,  # frozen passes are made in evaluation mode
            context_fn=lambda: (nullcontext(), _Again(frozen)),
            **kwargs,
        )

    module.__dict__["forward"] = forward


class _Again(AbstractContextManager[None]):
    """Freezes each run of a block: the layer runs again in every backward pass of several.

    Args:
        frozen: Freezes what runs in its block, once.
    """

    def __init__(self, frozen: Callable[[], AbstractContextManager[Any]]) -> None:
        self._frozen = frozen
        self._entered: list[AbstractContextManager[Any]] = []

    def __enter__(self) -> None:
        context = self._frozen()
        context.__enter__()
        self._entered.append(context)

    def __exit__(self, *error: Any) -> bool | None:
        return self._entered.pop().__exit__(*error)
