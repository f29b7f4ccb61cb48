"""A package that adds to normxlogit: a kind of input with its task, a part of messages, a method, and a command."""

from normxlogit.extending import Extension

EXTENSION = Extension(
    tasks=("normxlogit_example.forms:FormClassification",),
    part_readers=("normxlogit_example.tables:READER",),
    methods=("normxlogit_example.methods",),
    commands={"strongest": "normxlogit_example.command:strongest"},
)
