"""The two models that are compared, each with the context in which it answers."""

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ..copies.clone import unwrapped
from ..errors import InputError
from ..explainer import Explainer


class Side(NamedTuple):
    """One of two compared models.

    Attributes:
        explainer: Its explainer, which may be that of the other model as well, see `active`.
        active: Returns a context in which the explainer's model is this one.
        name: The name of the model.
    """

    explainer: Explainer
    active: Callable[[], AbstractContextManager[Any]]
    name: str


Sides = tuple[Side, Side]
"""The models before and after, by the indices `BEFORE` and `AFTER`."""


def sides_of(before: Any, after: Explainer) -> Sides:
    """Return two models to compare.

    Args:
        before: The model before, see `explainer_or_context`.
        after: The explainer of the model after.

    Raises:
        InputError: If both are one model with one set of weights.
    """
    model = explainer_or_context(before)
    name = after.task_model.name
    if not isinstance(model, Explainer):
        context_name = getattr(model, "__name__", "in a context")
        return Side(after, model, f"{name}, {context_name}"), Side(after, nullcontext, name)
    if unwrapped(model.model) is unwrapped(after.model):
        raise InputError(
            "before and after are one model, which has one set of weights: compare with a copy (copy.deepcopy) made "
            "before it was changed, or give a function for the context in which it differs, such as "
            "peft_model.disable_adapter"
        )
    return Side(model, nullcontext, model.task_model.name), Side(after, nullcontext, name)


def explainer_or_context(before: Any) -> Any:
    """Return the explainer of the model before, or the function that a caller gives instead.

    Args:
        before: A model's name or folder, a model, a model and its tokenizer, or an explainer; or a function that
            returns a context in which the model after is the one before, such as `peft_model.disable_adapter`.
    """
    # Not whatever can be called, as a model can be.
    if inspect.isroutine(before) or isinstance(before, partial | Explainer):
        return before
    if before is None or isinstance(before, str | Path):
        return Explainer.from_pretrained(before)
    return Explainer(*before) if isinstance(before, tuple) else Explainer(before)
