"""The command line. Commands import heavy modules when they run, so that `--help` is instant."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .program import app, main, run_app

__all__ = ["app", "main", "run_app"]


def __getattr__(name: str) -> Any:
    """Import the program when it is first used: it imports the commands of wings, which import options from here."""
    if name not in __all__:
        raise AttributeError(f"module 'normxlogit.cli' has no attribute {name!r}")
    from . import program

    return getattr(program, name)
