"""The options of a model are those of every command that takes one."""

import inspect

from normxlogit.cli import app


def commands(group, name=""):
    for entry in group.registered_commands:
        yield f"{name} {entry.name or entry.callback.__name__}", inspect.signature(entry.callback).parameters
    for inner in group.registered_groups:
        yield from commands(inner.typer_instance, f"{name} {inner.name}")


def test_every_command_that_takes_a_model_takes_a_gguf_file():
    with_model = {name: options for name, options in commands(app) if "model" in options}
    assert len(with_model) > 8
    assert [name for name, options in with_model.items() if "gguf_file" not in options] == []
