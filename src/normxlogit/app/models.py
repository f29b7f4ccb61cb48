"""Loaded models: the most recently used ones, each loaded once for all users."""

import threading
from collections import OrderedDict
from collections.abc import Callable

from ..explainer import Explainer


class LoadedModels:
    """The model that the app started with, and the most recently used other models.

    Raises:
        InputError: If the first cannot be loaded.
        UnsupportedModelError: If it has no head of a supported kind.
    """

    def __init__(self, first_name: str | None, max_kept: int, load: Callable[[str | None], Explainer]) -> None:
        self.name = first_name or ""
        self._load = load
        self._max_kept = max_kept
        self._first = load(first_name)
        self._kept: OrderedDict[str, Explainer] = OrderedDict()
        self._lock = threading.Lock()
        self._loading: dict[str, threading.Lock] = {}

    def __len__(self) -> int:
        return 1 + len(self._kept)

    def __call__(self, name: str | None) -> Explainer:
        """Return a model, which is loaded if it is not among the loaded ones."""
        name = (name or "").strip()
        if name in ("", self.name):
            return self._first
        with self._lock:
            loading_lock = self._loading.setdefault(name, threading.Lock())
        try:
            with loading_lock:  # the second who asks waits for the first instead of loading it too
                explainer = self._known(name)
                if explainer is None:
                    explainer = self._load(name)
                    self._keep(name, explainer)
                return explainer
        finally:
            with self._lock:
                self._loading.pop(name, None)

    def _known(self, name: str) -> Explainer | None:
        with self._lock:
            if name in self._kept:
                self._kept.move_to_end(name)
            return self._kept.get(name)

    def _keep(self, name: str, explainer: Explainer) -> None:
        with self._lock:
            self._kept[name] = explainer
            while len(self._kept) > self._max_kept:
                self._kept.popitem(last=False)
