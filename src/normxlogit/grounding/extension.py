"""What the documents of an answer add."""

from ..extending import Extension

EXTENSION = Extension(
    commands={
        "cite": "normxlogit.grounding.command:cite",
    },
)
