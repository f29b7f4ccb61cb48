"""Work on many rows at once that loses no row to another's fault."""

from collections.abc import Callable
from typing import Any

from ..errors import HeadMismatchError, NormXLogitError, UnsupportedModelError

GIVE_UP = 8
"""Rows that fail one by one before any succeeds, after which the model is at fault and not they."""


class Halving:
    """Does work for rows together, and where it fails in halves, so that a row that cannot be explained costs no other.

    It counts over all shards: when the first rows all fail, the model or the settings are at fault.
    """

    def __init__(self) -> None:
        self._explained = 0
        self._failed = 0

    def __call__(
        self, work: Callable[[list[int]], list[Any]], rows: list[int], report: Callable[[int, str], None]
    ) -> list[Any]:
        """Return the results of the work on the rows that do not fail."""
        try:
            results = work(rows)
        except (HeadMismatchError, UnsupportedModelError):
            raise
        except NormXLogitError as error:
            if len(rows) > 1:
                middle = len(rows) // 2
                return [*self(work, rows[:middle], report), *self(work, rows[middle:], report)]
            self._failed += 1
            if not self._explained and self._failed >= GIVE_UP:
                raise
            report(rows[0], str(error))
            return []
        self._explained += len(rows)
        return results
