"""The program of the command line: the core's commands and those of extensions."""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from ..errors import ExtensionError, InputError, NormXLogitError, reason_of
from ..extending import import_or_warn, references
from ..results.units.characters import one_line
from .doctor import doctor
from .explain import explain, methods
from .generate import generate

app: typer.Typer = typer.Typer(
    name="normxlogit",
    help="Show which words a model's answer rests on, and what it would answer without them.",
    add_completion=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich is slow to import, and its panels cut names where lines are narrow
)


class OnceEach(TyperCommand):
    """A command that refuses an option of one value that is given twice; click would take the second value unseen.

    Its help is plain text: first the options without a `rich_help_panel`, then the others under their panels' names.
    """

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings | {"rich_markup_mode": None})
        # A list of commands shows the whole first paragraph; click would cut it.
        self.short_help = (self.help or "").partition("\n\n")[0]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments of a command line; refuse an option of one value that is given twice."""
        # Click's parser returns the values, the other words, and a parameter for each time that it is given.
        _, _, given_parameters = self.make_parser(ctx).parse_args(args=list(args))
        for option, count in Counter(given_parameters).items():
            # Arguments have no `is_flag`; a flag that is given twice says the same.
            if count > 1 and not (option.multiple or getattr(option, "is_flag", False)):
                raise InputError(f"{option.opts[0]} is given {count} times, and takes one value")
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, the common options, then each panel of further options."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}  # pairs of spelling and help
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:  # a hidden parameter
                continue
            spelling, help_text = record
            section = getattr(parameter, "rich_help_panel", None) or "Options"
            if parameter.param_type_name == "argument":
                section = "Arguments"
                spelling = parameter.metavar or parameter.name.upper()  # without the Python type that Typer adds
            sections.setdefault(section, []).append((spelling, help_text))
        for heading, records in sections.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    run_app(app, "normxlogit", arguments)


def run_app(program: typer.Typer, name: str, arguments: Sequence[str] | None = None) -> None:
    """Run a program; a user's mistake, or a missing package, is one line on standard error and exit code 2.

    Args:
        program: The program.
        name: Its name, for the help.
        arguments: The words after the name; None for those of the process.
    """
    try:
        program(args=None if arguments is None else list(arguments), prog_name=name)
    except NormXLogitError as error:
        _stop(str(error))
    except ImportError as error:
        from .installation import FOUNDATIONS

        if (error.name or "").partition(".")[0] not in FOUNDATIONS:
            raise  # a fault of this library or of an extension
        _stop(f"{reason_of(error)}; `normxlogit doctor` shows what is installed and what to do")


def _stop(message: str) -> None:
    """End the program with one line on standard error."""
    sys.stderr.write(f"error: {one_line(message)}\n")
    sys.exit(2)


# Typer calls it before each command; without a command only for --version, as no words at all show the help.
@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False) -> None:
    """Show which words a model's answer rests on, and what it would answer without them."""
    if version:
        from .._version import __version__

        typer.echo(f"normxlogit {__version__}")
        raise typer.Exit


def _add(commands: Mapping[str, str]) -> None:
    """Add the commands of extensions.

    Args:
        commands: The reference of each command ("module:function") by its words: a name, or a group and a name, such as
            "evaluate frontier". A group comes before its commands; those of a group that is not installed are left out.
    """
    groups = {"": app}  # by their words; commands of one word belong to the program itself
    for words, reference in commands.items():
        group, _, name = words.rpartition(" ")
        command = import_or_warn(reference) if group in groups else None
        if isinstance(command, typer.Typer):
            groups[group].add_typer(command, name=name)
            groups[words] = command
        elif command is not None:
            groups[group].command(name=name, cls=OnceEach)(command)


app.command(cls=OnceEach)(explain)
app.command(cls=OnceEach)(generate)
try:
    _add(references("commands", frozenset(("explain", "generate", "methods", "doctor"))))
except ExtensionError as _error:
    _stop(str(_error))
app.command(cls=OnceEach)(methods)
app.command(cls=OnceEach)(doctor)
