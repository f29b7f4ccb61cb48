"""The steps of a job, each of which makes a new value of every row, until the last returns results."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ...errors import NormXLogitError
from ...inputs.chat import ChatTemplateError
from ...pipeline.by_halves import outcomes, reason_alone
from ..rows.shards import Shard

GIVE_UP = 8
"""If so many rows fail before any succeeds, the model is at fault, and the error is raised."""


@dataclass
class ShardRows:
    """The rows of a shard while they are explained, by their places in the shard from 0 on.

    Each step of the job replaces the values, and moves the rows that fail from `values` to `problems`.
    """

    shard: Shard
    values: dict[int, Any]  # what the last step made of each row; in the end pairs of a result and its token count
    problems: dict[int, str]  # why a row has no result


@dataclass(frozen=True)
class Step:
    """A step of a job, which makes a new value of each row.

    Attributes:
        call: Takes the values that the step before made of some rows, and returns or yields a new one for each. The
            first step takes their cells, mappings by roles such as "prompt" of `prompt_column`; the last one returns
            pairs of a result and the number of its tokens.
        at_once: How many rows it is called with at most; 0 for all of a shard.
        row_errors: The errors that say that a row is at fault, and not the model.
        size: Returns the size of a row, from its value, so that rows of similar sizes are called together; None to call
            rows in their order.
    """

    call: Callable[[list[Any]], Iterable[Any]]
    at_once: int = 0
    row_errors: type[NormXLogitError] | tuple[type[NormXLogitError], ...] = ()
    size: Callable[[Any], int] | None = None


class StepRun:
    """Calls a step with rows together, and with each half where that fails, until the rows that fail stand alone.

    It counts over all shards: when the first rows all fail, the model or the settings are at fault.
    """

    def __init__(self, step: Step) -> None:
        self.step = step
        self._has_succeeded = False
        self._failures = 0  # how many rows failed with other errors than `row_errors`

    def run(self, rows: ShardRows) -> None:
        """Call the step with all rows of a shard: replace their values, or move them to the problems."""
        values = rows.values
        size = self.step.size
        places = list(values) if size is None else sorted(values, key=lambda place: size(values[place]))
        at_once = self.step.at_once or max(len(places), 1)  # also without rows: the step of a range is not 0
        for start in range(0, len(places), at_once):
            self._call(places[start : start + at_once], rows)

    def _call(self, places: list[int], rows: ShardRows) -> None:
        """Call the step with the rows at some places of a shard: replace their values, or move them to the problems."""
        inputs = [rows.values[place] for place in places]
        # An outcome is the new value of a row, or the error of the call with this row alone.
        for place, outcome in zip(places, outcomes(self.step.call, inputs), strict=True):
            if isinstance(outcome, NormXLogitError):
                self._check_failure(outcome)
                del rows.values[place]
                rows.problems[place] = reason_alone(outcome)
            else:
                rows.values[place] = outcome
                self._has_succeeded = True

    def _check_failure(self, error: NormXLogitError) -> None:
        """Count the failure of a row; raise the error after `GIVE_UP` failures without any success.

        Then the model or the settings are at fault, and all other rows would fail as well.
        """
        is_of_model = isinstance(error, ChatTemplateError)  # an `InputError`, but the template is the model's
        if isinstance(error, self.step.row_errors) and not is_of_model:
            return
        self._failures += 1
        if not self._has_succeeded and self._failures >= GIVE_UP:
            raise error
