"""The latest request of each user: results of earlier requests that finish later are dropped."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Latest:
    """Runs the requests for one part of the page.

    Args:
        max_users: Users that are remembered, those with the latest requests.
    """

    def __init__(self, max_users: int = 10_000) -> None:
        self._max_users = max_users
        self._begun: OrderedDict[str | None, int] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, user: str | None, work: Callable[[], T], superseded: T) -> T:
        """Return the result of a request, or `superseded` if the same user has begun another one meanwhile."""
        with self._lock:
            number = self._begun.pop(user, 0) + 1
            self._begun[user] = number
            while len(self._begun) > self._max_users:
                self._begun.popitem(last=False)
        result = work()
        with self._lock:
            return result if self._begun.get(user) == number else superseded
