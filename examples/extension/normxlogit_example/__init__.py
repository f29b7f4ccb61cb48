"""A package that adds to normxlogit: a kind of input with its task, a method, and a command."""

from normxlogit.extending import Extension

EXTENSION = Extension(
    tasks=("normxlogit_example.forms:FormClassification",),
    methods=("normxlogit_example.methods",),
    commands={"strongest": "normxlogit_example.command:strongest"},
)
