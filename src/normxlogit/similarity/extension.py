"""What the similarity of two texts adds."""

from ..extending import Extension

EXTENSION = Extension(
    tasks=("normxlogit.similarity.tasks.embedding:Embedding",),
    holders=("normxlogit.similarity.holders:held_in",),
    results={
        "similarity": "normxlogit.similarity.result:Similarity",
    },
    commands={
        "similarity": "normxlogit.similarity.command:similarity",
    },
)
