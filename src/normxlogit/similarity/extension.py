"""What the similarity of two texts adds."""

from ..extending import Extension

EXTENSION = Extension(
    calls={"similarity": "normxlogit.similarity.call:similarity"},
    tasks=("normxlogit.similarity.tasks.embedding:Embedding",),
    results={"similarity": "normxlogit.similarity.result:Similarity"},
    drawers={"similarity": "normxlogit.similarity.drawing:similarity_blocks"},
    figures={"similarity": "normxlogit.similarity.figures:plot_similarity"},
    commands={"similarity": "normxlogit.similarity.command:similarity"},
)
