"""What explanations of a recorded forward pass add."""

from ..extending import Extension

EXTENSION = Extension(calls={"from_outputs": "normxlogit.recorded.call:from_outputs"})
