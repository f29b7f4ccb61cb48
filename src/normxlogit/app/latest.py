"""Which request of each reader began last: what an earlier one answers later is not shown any more."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Latest:
    """Does the work of requests for one place on the page.

    Args:
        most: Readers that are remembered; of the others, who have not asked for long, nothing runs.
    """

    def __init__(self, most: int = 10_000) -> None:
        self._most = most
        self._begun: OrderedDict[str | None, int] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, reader: str | None, work: Callable[[], T], late: T) -> T:
        """Return what some work gives, or `late` where the reader's next request began meanwhile."""
        with self._lock:
            number = self._begun.pop(reader, 0) + 1
            self._begun[reader] = number
            while len(self._begun) > self._most:
                self._begun.popitem(last=False)
        result = work()
        with self._lock:
            return result if self._begun.get(reader) == number else late
