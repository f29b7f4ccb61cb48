"""What the similarity of two texts adds."""

from typing import Any

from ..extending import AddedTask, Extension, ModelClasses


def is_sentence_transformer(module: Any) -> bool:
    """Return whether a model is one of sentence-transformers, a sequence of modules that encodes texts.

    It is told by the names of classes, so that the package need not be installed.

    Args:
        module: Any model.
    """
    if not any(cls.__name__ == "Sequential" for cls in type(module).__mro__):
        return False
    return callable(getattr(module, "encode", None)) or any(type(m).__name__ == "Pooling" for m in module.children())


EMBEDDING = AddedTask(
    "embedding",
    "normxlogit.similarity.tasks.embedding:Embedding",
    ModelClasses(
        peft_type="FEATURE_EXTRACTION",
        claims=is_sentence_transformer,
        wrapper="normxlogit.similarity.tasks.embedding:SENTENCE_TRANSFORMERS",
    ),
)

EXTENSION = Extension(
    calls={"similarity": "normxlogit.similarity.call:similarity"},
    without={"second": "similarity"},
    tasks=(EMBEDDING,),
    results={"similarity": "normxlogit.similarity.result:Similarity"},
    drawers={"similarity": "normxlogit.similarity.drawing:similarity_blocks"},
    figures={"similarity": "normxlogit.similarity.figures:plot_similarity"},
    commands={"similarity": "normxlogit.similarity.similarity_command:similarity"},
)
