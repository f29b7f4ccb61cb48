"""Work on many rows at once that loses no row to another's fault."""

from collections.abc import Callable
from typing import Any

from ..errors import HeadMismatchError, NormXLogitError, UnsupportedModelError

__all__ = ["Halving"]

GIVE_UP = 8
"""Rows that fail one by one before any has been explained, after which the model is at fault and not they."""


class Halving:
    """Does work for rows together, and where it fails in halves, so that a row that cannot be explained costs no other.

    It counts over all shards: when the first rows all fail, the model or the settings are at fault.
    """

    def __init__(self) -> None:
        self._explained = 0
        self._failed = 0

    def __call__(
        self, work: Callable[[list[int]], list[Any]], places: list[int], tell: Callable[[int, str], None]
    ) -> list[Any]:
        """Return what the work found for the rows that it can be done for.

        Args:
            work: What to do for some places.
            places: The places.
            tell: Is told the place of a row that fails, and why.

        Raises:
            NormXLogitError: If the model is at fault, not single rows.
        """
        try:
            found = work(places)
        except (HeadMismatchError, UnsupportedModelError):
            raise
        except NormXLogitError as error:
            if len(places) > 1:
                middle = len(places) // 2
                return [*self(work, places[:middle], tell), *self(work, places[middle:], tell)]
            self._failed += 1
            if not self._explained and self._failed >= GIVE_UP:
                raise
            tell(places[0], str(error))
            return []
        self._explained += len(places)
        return found
