"""The two models of a comparison, and the labels that both have."""

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ..copies.clone import unwrapped
from ..errors import InputError, TargetError, UnsupportedModelError
from ..explainer import Explainer
from ..model.task_model import TaskModel
from ..results.targets import Prediction
from ..tasks.targets import Choice, index_of

Pair = tuple[int, int]
"""An output of the model before, and the same output of the model after."""


class Side(NamedTuple):
    """One of two compared models.

    Attributes:
        active: Returns a context in which the explainer's model is this one, such as one with its adapter off.
        name: Its name in results.
    """

    explainer: Explainer
    active: Callable[[], AbstractContextManager[Any]]
    name: str


def sides_of(before: Any, after: Any) -> tuple[Side, Side]:
    """Return two models to compare, from what `compare_models` takes."""
    first, second = opened(before), opened(after)
    models = [model for model in (first, second) if isinstance(model, Explainer)]
    if not models:
        raise InputError("one of the two must be a model: a function says only in which context it is another one")
    if len(models) == 2 and unwrapped(first.model) is unwrapped(second.model):
        raise InputError(
            "before and after are one model, which has one set of weights: compare with a copy (copy.deepcopy) made "
            "before it was changed, or give a function for the context in which it differs, such as "
            "peft_model.disable_adapter"
        )
    name = models[0].task_model.name
    sides = [
        Side(model, nullcontext, model.task_model.name)
        if isinstance(model, Explainer)
        else Side(models[0], model, f"{name}, {getattr(model, '__name__', 'in a context')}")
        for model in (first, second)
    ]
    return sides[0], sides[1]


def opened(model: Any) -> Any:
    """Return a model as an explainer; a function that returns a context stays."""
    if isinstance(model, Explainer) or inspect.isroutine(model) or isinstance(model, partial):
        return model
    if model is None or isinstance(model, str | Path):
        return Explainer.from_pretrained(model)
    return Explainer(*model) if isinstance(model, tuple) else Explainer(model)


class SharedOutputs:
    """The outputs that two classifiers, or two regressions, share by their names."""

    def __init__(self, before: TaskModel, after: TaskModel) -> None:
        for model in (before, after):
            model.task.check_explains_inputs(model)
            if model.task.reads != "text" or model.task.position.at != "text":
                raise UnsupportedModelError(
                    f"{model.name} is for {model.task.name}, and compared are models that classify a text or give it a "
                    "value, and language models on a completion: compare_models(before, after, prompts, completion)"
                )
        ours, theirs = before.task.outputs, after.task.outputs
        self.after, self.outcomes = after, ours.outcomes
        self.binary = len(ours.labels) == len(theirs.labels) == 2
        if (ours.kind, ours.outcomes) != (theirs.kind, theirs.outcomes):
            raise UnsupportedModelError(
                f"{before.name} and {after.name} answer in different ways: with values, with one of several labels or "
                "with several at once; compare models of one way"
            )
        # By their names; case counts where labels of a model differ by it.
        folds = all(len({label.casefold() for label in o.labels}) == len(o.labels) for o in (ours, theirs))
        first, second = ([label.casefold() if folds else label for label in o.labels] for o in (ours, theirs))
        shared = [label for label in first if first.count(label) == second.count(label) == 1]
        self.pairs = [(first.index(label), second.index(label)) for label in shared]
        if ours.kind == "value" and len(ours.labels) == len(theirs.labels) == 1:
            self.pairs = [(0, 0)]
        if not self.pairs:
            raise TargetError(
                f"no label of {before.name} ({', '.join(ours.labels[:8])}) is one of {after.name} "
                f"({', '.join(theirs.labels[:8])}): name them alike with Explainer(..., labels=[...])"
            )

    def named(self, choice: Choice) -> Pair:
        """Return the output that a caller names, by its name or its index in the model after."""
        index = index_of(self.after.task, choice, self.after.output_count)
        if (pair := next((pair for pair in self.pairs if pair[1] == index), None)) is None:
            raise TargetError(f"{choice!r} is a label of {self.after.name} alone")
        return pair

    def compared(
        self, before: Prediction, after: Prediction, target: Choice | None = None, contrast: Choice | None = None
    ) -> tuple[Pair, Pair | None]:
        """Return which label of a text is compared, and which is subtracted: those that the caller named.

        Otherwise it is the answer after rather than the one before; of equal answers, and of labels that do not
        exclude each other, the label itself, against the other one where there are two.
        """
        subtracted = None if contrast is None else self.named(contrast)
        if target is not None:
            return self.named(target), subtracted
        earlier = next((pair for pair in self.pairs if pair[0] == before.id), None)
        later = next((pair for pair in self.pairs if pair[1] == after.id), earlier)
        if later is None:
            raise InputError(f"neither {before.label!r} nor {after.label!r} is a label of both models: give target=")
        if self.outcomes != "exclusive" or subtracted is not None:
            return later, subtracted
        if earlier not in (None, later):
            return later, earlier
        return later, next((pair for pair in self.pairs if pair != later), None) if self.binary else None
