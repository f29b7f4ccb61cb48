"""The command line. Commands import heavy modules when they run, so that `--help` is instant."""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from ..errors import NormXLogitError
from ..results.units.characters import one_line
from .app import app as serve_app
from .attribute import attribute
from .cache import cache
from .cite import cite
from .console import OnceEach, wrapped
from .evaluate import app as evaluate
from .explain import explain, methods
from .generate import generate
from .similarity import similarity
from .summarize import summarize
from .transcribe import transcribe

__all__ = ["app", "main", "run_app"]

app: typer.Typer = typer.Typer(
    name="normxlogit",
    help="Which tokens a model's answer rests on, from the forward pass it already runs.",
    add_completion=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    run_app(app, "normxlogit", arguments)


def run_app(program: typer.Typer, name: str, arguments: Sequence[str] | None = None) -> None:
    """Run a program; a user's mistake is one line on standard error and exit code 2."""
    try:
        program(args=None if arguments is None else list(arguments), prog_name=name)
    except NormXLogitError as error:
        sys.stderr.write(wrapped(f"error: {one_line(str(error))}") + "\n")
        sys.exit(2)


def _show_version(show: bool) -> None:
    if show:
        from .._version import __version__

        typer.echo(f"normxlogit {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Show which tokens a model's answer rests on, from the forward pass it already runs."""


app.command(cls=OnceEach)(explain)
app.command(cls=OnceEach)(generate)
app.command(cls=OnceEach)(transcribe)
app.command(cls=OnceEach)(attribute)
app.command(cls=OnceEach)(summarize)
app.command(cls=OnceEach)(cite)
app.command(name="app", cls=OnceEach)(serve_app)
app.command(cls=OnceEach)(similarity)
app.command(cls=OnceEach)(methods)
app.command(cls=OnceEach)(cache)
app.add_typer(evaluate, name="evaluate")
