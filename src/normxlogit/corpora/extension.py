"""What corpora add."""

from ..extending import Extension

EXTENSION = Extension(
    commands={
        "attribute": "normxlogit.corpora.attribute_command:attribute",
        "summarize": "normxlogit.corpora.summarize_command:summarize",
    },
)
