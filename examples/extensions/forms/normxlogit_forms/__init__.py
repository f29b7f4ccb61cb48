"""A package that adds a text task to normxlogit, and tables in messages."""

from normxlogit.extending import AddedTask, Extension, ModelClasses

URGENCY = AddedTask(
    "form-urgency",
    "normxlogit_forms.tasks:FormUrgency",
    ModelClasses(plain=True),  # no class of transformers is for this task: whoever loads a model names it
)

EXTENSION = Extension(tasks=(URGENCY,), part_readers=("normxlogit_forms.tables:READER",))
