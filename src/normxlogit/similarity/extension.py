"""What the similarity of two texts adds."""

from ..extending import Extension

EXTENSION = Extension(
    tasks=(
        "normxlogit.similarity.tasks.embedding:Embedding",
        "normxlogit.similarity.tasks.two_towers:TwoTowers",
    ),
    commands={
        "similarity": "normxlogit.similarity.command:similarity",
    },
)
