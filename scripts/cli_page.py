"""The page of the command line, from the commands; the docs build it, and `python scripts/cli_page.py` prints it."""

import inspect
import re
import sys
import typing
from pathlib import Path
from types import NoneType, UnionType

from typer.models import ArgumentInfo

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


def commands(app, name="normxlogit"):
    """Yield the full name and the function of every command."""
    for entry in app.registered_commands:
        yield f"{name} {entry.name or entry.callback.__name__.replace('_', '-')}", entry.callback
    for group in app.registered_groups:
        yield from commands(group.typer_instance, f"{name} {group.name}")


def written() -> str:
    """Return the page."""
    parts = [HEAD]
    names = {}  # some functions are several commands
    programs = [*commands(cli.app), (PAPER, paper.cli.root), *commands(paper.cli.app, PAPER)]
    programs += commands(benchmarks.commands.app, BENCHMARKS)
    for name, function in programs:
        names.setdefault(function, []).append(name)
    for function, (name, *others) in names.items():
        hints = typing.get_type_hints(function, include_extras=True)
        options = inspect.signature(function).parameters.items()
        taken = [(key, *typing.get_args(hints[key]), p.default) for key, p in options if typing.get_args(hints[key])]
        taken.sort(key=lambda one: not isinstance(one[2], ArgumentInfo))
        named = [_argument(key, info) for key, _, info, _ in taken if isinstance(info, ArgumentInfo)]
        more = [*named, *(["[OPTIONS]"] if len(taken) > len(named) else [])]
        usage = "\n".join(" ".join([command, *more]) for command in (name, *others))
        heading = ", ".join([name, *(other.rpartition(" ")[2] for other in others)])
        about, _, example = inspect.getdoc(function).partition("\n\nExample: ")
        console = f"\n```console\n$ {example.strip()}\n```\n" if example else ""
        parts.append(f"## {heading}\n\n{_cell(about)}\n\n```\n{usage}\n```\n{console}")
        if taken:
            rows = ["| option | value | default | what it is |", "|---|---|---|---|", *(_row(*one) for one in taken)]
            parts.append("\n".join(rows) + "\n")
    return "\n".join(parts)


def _argument(key: str, info) -> str:
    return info.metavar or key.upper()


def _row(key: str, annotation, info, default) -> str:
    """Return the line of an argument or option."""
    optional = typing.get_origin(annotation) in (UnionType, typing.Union)
    kinds = [kind for kind in (typing.get_args(annotation) if optional else (annotation,)) if kind is not NoneType]
    several = any(typing.get_origin(kind) is list for kind in (annotation, *kinds))
    kind = next((typing.get_args(k)[0] for k in kinds if typing.get_origin(k) is list), kinds[0])
    argument = isinstance(info, ArgumentInfo)
    # The first name that `typer.Option` is given within `Annotated` stands in its place for the default.
    flags = [name for name in (info.default, *(info.param_decls or ())) if isinstance(name, str)]
    names = [_argument(key, info)] if argument else flags or [f"--{key.replace('_', '-')}"]
    if kind is bool:
        value = ""
    elif typing.get_origin(kind) is typing.Literal:
        value = ", ".join(f"`{choice}`" for choice in typing.get_args(kind))
    elif typing.get_origin(kind) is tuple:
        value = " and ".join(NAMES[part] for part in typing.get_args(kind))
    else:
        value = NAMES[kind]
    if several:
        value += ", several"
    if isinstance(default, Path) and default.is_relative_to(ROOT):
        default = default.relative_to(ROOT)  # wherever the docs are built
    default_text = (
        "required" if default is inspect.Parameter.empty else "" if default in (None, False, "") else f"`{default}`"
    )
    return f"| {' '.join(f'`{name}`' for name in names)} | {value} | {default_text} | {_cell(info.help)} |"


def _cell(text) -> str:
    return re.sub(r"\s+", " ", text or "").strip().replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    print(written())
