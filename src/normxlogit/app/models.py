"""Loaded models: the most recently used ones, each loaded once for all users."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future

from ..explainer import Explainer


class LoadedModels:
    """The model that the app started with, and the most recently used other models."""

    def __init__(self, first_name: str | None, max_kept: int, load: Callable[[str | None], Explainer]) -> None:
        self.name = first_name or ""
        self._load = load
        self._max_kept = max_kept
        self._first = load(first_name)
        self._kept: OrderedDict[str, Future[Explainer]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return 1 + len(self._kept)

    def __call__(self, name: str | None) -> Explainer:
        """Return a model, which is loaded if it is not among the loaded ones."""
        name = (name or "").strip()
        if name in ("", self.name):
            return self._first
        with self._lock:
            is_new = name not in self._kept
            loaded = self._kept.setdefault(name, Future())
            self._kept.move_to_end(name)
            while len(self._kept) > self._max_kept:
                self._kept.popitem(last=False)
        if is_new:
            try:
                loaded.set_result(self._load(name))
            except BaseException as error:
                with self._lock:
                    self._kept.pop(name, None)
                loaded.set_exception(error)
        return loaded.result()  # the second who asks waits for the first instead of loading it too
