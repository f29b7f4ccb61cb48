"""The command line. Commands import heavy modules when they run, so that `--help` is instant."""

from typing import TYPE_CHECKING

from ..extending import lazy_names

if TYPE_CHECKING:
    from .program import app, main, run_app

__all__ = ["app", "main", "run_app"]

__getattr__ = lazy_names(__name__, {"program": __all__})
