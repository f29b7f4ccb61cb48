"""What measuring methods adds."""

from ..extending import Extension

EXTENSION = Extension(commands={"evaluate": "normxlogit.evaluation.evaluate_commands:app"})
