"""What the choice between several texts adds."""

from ..extending import AddedTask, Extension, ModelClasses

MULTIPLE_CHOICE = AddedTask(
    "multiple-choice",
    "normxlogit.choices.comparing:MultipleChoice",
    ModelClasses(mapping="MODEL_FOR_MULTIPLE_CHOICE_MAPPING_NAMES", auto_class="AutoModelForMultipleChoice"),
)

EXTENSION = Extension(
    tasks=(MULTIPLE_CHOICE,),
    pipelines={"zero-shot-classification": "normxlogit.choices.zero_shot:task_of_pipeline"},
)
