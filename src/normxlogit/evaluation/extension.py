"""What measuring methods adds."""

from ..extending import Extension

EXTENSION = Extension(commands={"evaluate": "normxlogit.evaluation.command:app"})
