"""A package that adds to normxlogit: a task, a part of messages, a method, a call with its result, and commands."""

from normxlogit.extending import AddedTask, Extension, ModelClasses

FORMS = AddedTask(
    "form-classification",
    "normxlogit_example.forms:FormClassification",
    ModelClasses(plain=True),  # no class of transformers is for this task: whoever loads a model names it
)

EXTENSION = Extension(
    calls={"stability": "normxlogit_example.stability:stability"},
    tasks=(FORMS,),
    part_readers=("normxlogit_example.tables:READER",),
    methods=("normxlogit_example.methods",),
    results={"stability": "normxlogit_example.stability:Stability"},
    drawers={"stability": "normxlogit_example.stability:stability_blocks"},
    exports={"markdown": "normxlogit_example.markdown:to_markdown"},
    commands={"strongest": "normxlogit_example.command:strongest"},
)
