"""What the model answers without parts of its input: each removal is asked about once, many in a batch."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from ..inputs.encoding import Encoding
from ..model.batch_attempts import batch_attempts
from ..model.task_model import TaskModel
from ..results.targets import Prediction

Key = TypeVar("Key", bound=Hashable)
Outcome = TypeVar("Outcome")

INPUTS_AT_ONCE = 2048
"""Most inputs in memory."""

Progress = Callable[[int], AbstractContextManager[Callable[[float], Any]]]
"""Shows the progress of a number of steps; the function that it yields adds some."""


def no_progress(total: int) -> AbstractContextManager[Callable[[float], Any]]:
    """Show nothing."""
    return nullcontext(lambda advance: None)


class Answer(NamedTuple):
    """The model's answer to an input."""

    prediction: Prediction | None  # None if nothing is predicted, as of a cosine
    value: float  # the measured quantity, such as the probability of the explained label
    outcome: Hashable  # what is compared to say whether the prediction changed, such as a label; None of values
    logits: Tensor | None = None  # (C,), of a text that is classified as a whole, or of a window
    values: tuple[float, ...] = ()  # of a cited answer, the log-probability of each of its sentences


class Outcomes(Generic[Key, Outcome]):
    """A table from what is removed of an input to what is measured without it; each is asked about once.

    Args:
        ask: Measures the outcomes of removals, and yields each with its removal, in any order.
        progress: Shows how many of them are measured.
        known: Outcomes that were measured before.
    """

    def __init__(
        self,
        ask: Callable[[list[Key]], Iterable[tuple[Key, Outcome]]],
        progress: Progress = no_progress,
        known: Mapping[Key, Outcome] | None = None,
    ) -> None:
        self._ask = ask
        self._progress = progress
        self._known = dict(known or {})

    def __call__(self, removals: Iterable[Key]) -> list[Outcome]:
        """Return the outcomes of removals, in their order."""
        removals = list(removals)
        unknown = [removal for removal in dict.fromkeys(removals) if removal not in self._known]
        if unknown:  # most rounds of a search ask only what is known, and a display of progress costs a thread
            with self._progress(len(unknown)) as advance:
                for removal, outcome in self._ask(unknown):
                    self._known[removal] = outcome
                    advance(1)
        return [self._known[removal] for removal in removals]


def in_batches(
    model: TaskModel,
    without: Callable[[Key], Encoding],
    measure: Callable[[list[Encoding], list[Key]], Iterable[Outcome]],
) -> Callable[[list[Key]], Iterator[tuple[Key, Outcome]]]:
    """Return a function that measures, in batches, the inputs that are left after removals, for `Outcomes`.

    Args:
        model: The model.
        without: Returns the input that is left after a removal.
        measure: Measures the inputs of a batch, given with their removals: one outcome for each.
    """

    def ask(removals: list[Key]) -> Iterator[tuple[Key, Outcome]]:
        """Yield each removal with its outcome, batch by batch."""
        for start in range(0, len(removals), INPUTS_AT_ONCE):
            removals_in_memory = removals[start : start + INPUTS_AT_ONCE]
            inputs = [without(removal) for removal in removals_in_memory]
            for attempt in batch_attempts(model, inputs):
                measured: list[tuple[Key, Outcome]] = []  # stays empty if the batch is too large, and is halved
                with attempt as indices, torch.inference_mode():  # of the inputs of one batch
                    batch = [removals_in_memory[index] for index in indices]
                    outcomes = measure([inputs[index] for index in indices], batch)
                    measured += zip(batch, outcomes, strict=True)
                yield from measured  # outside inference mode, which would reach the caller

    return ask
