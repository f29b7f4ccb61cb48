"""What the choice between several texts adds."""

from ..extending import Extension

EXTENSION = Extension(
    tasks=("normxlogit.choices.comparing:MultipleChoice",),
    pipelines={"zero-shot-classification": "normxlogit.choices.zero_shot:task_of_pipeline"},
)
