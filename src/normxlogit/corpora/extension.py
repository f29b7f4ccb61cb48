"""What corpora add."""

from ..extending import Extension

EXTENSION = Extension(
    commands={"attribute": "normxlogit.corpora.command:attribute", "summarize": "normxlogit.corpora.command:summarize"}
)
