"""What the commands of long runs share: reports, a folder for results, and the progress of several pieces of work."""

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from ..cli.console import write
from ..errors import InputError
from ..results.units.characters import safe

ReportFolder = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER", help="Folder for results as JSON, Markdown, LaTeX and figures; a stopped run goes on there."
    ),
]

GoldLabelsOption = Annotated[
    str | None,
    typer.Option(
        metavar="PAIRS",
        help="What values of the gold column mean that are not names of labels: VALUE=LABEL pairs such as '1=negative "
        "5=positive 3=', where nothing after = leaves rows out; or id2label if numbers count the labels of the model.",
    ),
]


def write_report(markdown: str) -> None:
    """Write Markdown to standard output; a terminal shows headings and tables, and underlined parts emphasised."""
    if not sys.stdout.isatty():
        write(markdown)
        return
    from ..render.terminal import printed, wants_color
    from .markdown import Markdown

    document = Markdown(re.sub("</?u>", "*", safe(markdown)), hyperlinks=False)
    write(printed([document], color=wants_color(sys.stdout)) + "\n")


def check_folder(output: Path | None) -> None:
    """Refuse a folder that results cannot be written to, before any work, without creating it.

    Raises:
        InputError: If it, or what it would be created in, is a file or cannot be written to.
    """
    if output is None:
        return
    # The nearest that exists: the last of the parents is "/", or "." of a relative path.
    existing = next((path for path in (output, *output.parents) if path.exists()), Path("."))
    if not existing.is_dir():
        raise InputError(f"cannot write to {output}: {existing} is a file")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise InputError(f"cannot write to {output}: no permission for {existing}")


@contextmanager
def progress(pieces_of_work: int) -> Iterator[Callable[[str, int, int], None]]:
    """Show a progress bar; yield a function of the name of a piece of work, its finished items and all of them.

    Args:
        pieces_of_work: How many pieces there are, which come one after another.
    """
    from ..pipeline.progress import progress_bar

    with progress_bar(pieces_of_work, show=True, description="starting") as update:
        finished_pieces = 0

        def on_progress(name: str, finished_items: int, items: int) -> None:
            """Show the finished share of a piece of work."""
            nonlocal finished_pieces
            update(completed=finished_pieces + finished_items / items, description=name)
            if finished_items >= items:
                finished_pieces += 1

        yield on_progress
