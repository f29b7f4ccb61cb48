"""The page of the command line, from the commands; the docs build it, and `python scripts/cli_page.py` prints it."""

import inspect
import re
import sys
import typing
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, NamedTuple

from typer.models import ArgumentInfo, OptionInfo

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # `benchmarks` and `paper` are not installed

import benchmarks.commands  # noqa: E402
import paper.cli  # noqa: E402
from normxlogit import cli  # noqa: E402

HEAD = """# The command line

`normxlogit COMMAND --help` says the same. A mistake is one
line on standard error and exit code 2. Colours follow `NO_COLOR`, `FORCE_COLOR` and `TERM`; results go to standard
output, progress to standard error. A file given by `--output` is whole or not there. The commands of `python -m paper`
(the [paper's experiments](reproduction.md)) and of `python -m benchmarks` (other measurements) run from a checkout.
"""

PAPER = "python -m paper"
BENCHMARKS = "python -m benchmarks"
NAMES = {int: "number", float: "number", str: "text", Path: "path"}
"""What the value of an option is called, by its type."""


def commands(app, name="normxlogit"):
    """Yield the full name and the function of every command."""
    for entry in app.registered_commands:
        yield f"{name} {entry.name or entry.callback.__name__.replace('_', '-')}", entry.callback
    for group in app.registered_groups:
        yield from commands(group.typer_instance, f"{name} {group.name}")


class Parameter(NamedTuple):
    """An argument or an option of a command.

    Attributes:
        name: The name of the function's parameter.
        annotation: What it takes, as a type.
        info: How typer reads it.
        default: Its value by default; `inspect.Parameter.empty` where there is none.
    """

    name: str
    annotation: Any
    info: ArgumentInfo | OptionInfo
    default: Any

    @property
    def is_argument(self) -> bool:
        """Whether it is given by its place, and not by a flag."""
        return isinstance(self.info, ArgumentInfo)

    @property
    def metavar(self) -> str:
        """The name of an argument in the usage."""
        return self.info.metavar or self.name.upper()


def written() -> str:
    """Return the page."""
    names: dict[Any, list[str]] = {}  # some functions are several commands
    programs = [*commands(cli.app), (PAPER, paper.cli.root), *commands(paper.cli.app, PAPER)]
    programs += commands(benchmarks.commands.app, BENCHMARKS)
    for name, function in programs:
        names.setdefault(function, []).append(name)
    return "\n".join([HEAD, *(_section(function, names_of_it) for function, names_of_it in names.items())])


def _section(function: Any, names: list[str]) -> str:
    """Return the section of a command.

    Args:
        function: Its function.
        names: Its full names, of which a function may have several.
    """
    parameters = _parameters(function)
    arguments = [parameter.metavar for parameter in parameters if parameter.is_argument]
    options = ["[OPTIONS]"] if len(parameters) > len(arguments) else []
    usage = "\n".join(" ".join([name, *arguments, *options]) for name in names)
    heading = ", ".join([names[0], *(name.rpartition(" ")[2] for name in names[1:])])
    description, _, example = (inspect.getdoc(function) or "").partition("\n\nExample: ")
    console = f"\n```console\n$ {example.strip()}\n```\n" if example else ""
    section = f"## {heading}\n\n{_cell(description)}\n\n```\n{usage}\n```\n{console}"
    if not parameters:
        return section
    head = ["| option | value | default | what it is |", "|---|---|---|---|"]
    return "\n".join([section, *head, *map(_row, parameters)]) + "\n"


def _parameters(function: Any) -> list[Parameter]:
    """Return what a command takes, its arguments first; what typer itself passes has no annotation with an info."""
    hints = typing.get_type_hints(function, include_extras=True)
    parameters = []
    for name, parameter in inspect.signature(function).parameters.items():
        annotated = typing.get_args(hints[name])  # (type, info) of Annotated
        if annotated:
            parameters.append(Parameter(name, *annotated, parameter.default))
    return sorted(parameters, key=lambda parameter: not parameter.is_argument)


def _row(parameter: Parameter) -> str:
    """Return the line of an argument or option."""
    info = parameter.info
    # The first name that `typer.Option` is given within `Annotated` stands in its place for the default.
    flags = [name for name in (info.default, *(info.param_decls or ())) if isinstance(name, str)]
    names = flags or [f"--{parameter.name.replace('_', '-')}"]
    if parameter.is_argument:
        names = [parameter.metavar]
    default = parameter.default
    if isinstance(default, Path) and default.is_relative_to(ROOT):
        default = default.relative_to(ROOT)  # wherever the docs are built
    default_text = "" if default in (None, False, "") else f"`{default}`"
    if default is inspect.Parameter.empty:
        default_text = "required"
    shown_names = " ".join(f"`{name}`" for name in names)
    return f"| {shown_names} | {_value_text(parameter.annotation)} | {default_text} | {_cell(info.help)} |"


def _value_text(annotation: Any) -> str:
    """Return what a parameter of a type takes, such as "number, several" for list[int] | None."""
    is_union = typing.get_origin(annotation) in (UnionType, typing.Union)
    types = [part for part in typing.get_args(annotation) if part is not NoneType] if is_union else [annotation]
    lists = [part for part in types if typing.get_origin(part) is list]
    value_type = typing.get_args(lists[0])[0] if lists else types[0]
    if value_type is bool:
        value = ""
    elif typing.get_origin(value_type) is typing.Literal:
        value = ", ".join(f"`{choice}`" for choice in typing.get_args(value_type))
    elif typing.get_origin(value_type) is tuple:
        value = " and ".join(NAMES[part] for part in typing.get_args(value_type))
    else:
        value = NAMES[value_type]
    return f"{value}, several" if lists else value


def _cell(text) -> str:
    """Return a text as a cell of a Markdown table."""
    return re.sub(r"\s+", " ", text or "").strip().replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    print(written())
