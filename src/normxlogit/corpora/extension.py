"""What corpora add."""

from ..extending import Extension

NAMES = ("attribute", "summarize", "Predictions", "Completions", "Answers", "Conversations")

EXTENSION = Extension(
    names={name: f"normxlogit.corpora:{name}" for name in NAMES},
    commands={
        "attribute": "normxlogit.corpora.corpus_commands:attribute",
        "summarize": "normxlogit.corpora.corpus_commands:summarize",
    },
)
