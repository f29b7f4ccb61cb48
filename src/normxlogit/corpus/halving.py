"""Work on many rows together, in which a row that fails costs no other row."""

from collections.abc import Callable
from typing import Any

from ..errors import HeadMismatchError, NormXLogitError, UnsupportedModelError

GIVE_UP = 8
"""If so many rows fail before any succeeds, the model is at fault, and the error is raised."""


class Halving:
    """Works on rows together, and on each half where that fails, until the rows that fail stand alone.

    It counts over all shards: when the first rows all fail, the model or the settings are at fault.
    """

    def __init__(self) -> None:
        self._explained = 0
        self._failed = 0

    def __call__(
        self, work: Callable[[list[int]], list[Any]], rows: list[int], report: Callable[[int, str], None]
    ) -> list[Any]:
        """Return the results of the rows that succeed, and report the others."""
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
