"""The command that sums up a corpus run."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import InputError
from .console import Format, check_run_output, deliver, format_for, quiet
from .options import OutputFile, OutputFormat

if TYPE_CHECKING:
    from ..corpus.summary import Summary

__all__ = ["summarize"]


def summarize(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="What `normxlogit attribute` wrote.")],
    gold: Annotated[str | None, typer.Option(help="A kept column with the right labels, by name or number.")] = None,
    against: Annotated[str | None, typer.Option(help="Another run of the same texts to compare with.")] = None,
    top: Annotated[int, typer.Option(min=1, help="Words in each list.")] = 20,
    min_count: Annotated[int, typer.Option(min=1, help="Leave out words that stand at fewer places.")] = 5,
    output_format: OutputFormat = None,
    output: OutputFile = None,
) -> None:
    """Show what a model looks at over a whole corpus."""
    kind = output_format or format_for(output)
    if kind is Format.csv:
        raise InputError("a summary is written as text, HTML or JSON, not as CSV")
    check_run_output(output, folder)
    with quiet():
        from ..corpus import summarize as run

        found = run(folder, gold=gold, against=against, top=top, min_count=min_count)
    deliver(_written(found, kind), output)


def _written(found: "Summary", kind: Format) -> str:
    if kind is Format.json:
        return json.dumps(found.to_dict(), indent=1) + "\n"
    from ..corpus.summary_page import page

    return page(found) if kind is Format.html else _tables(found)


def _tables(found: "Summary") -> str:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from ..corpus.summary_page import sections

    console = Console(width=120, highlight=False)
    with console.capture() as capture:
        left = "" if found.complete else "; the run is not finished"
        facts = f"{found.rows:,} texts, {found.method} on {found.model}, {found.errors:,} errors{left}\n"
        console.print(Text(facts))
        for section in sections(found):
            table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=Text(section.heading), title_justify="left")
            for place, name in enumerate(section.names):
                table.add_column(name, justify="left" if place == 0 else "right", overflow="fold")
            with_texts = any(line.examples for line in section.lines)
            if with_texts:
                table.add_column("texts", overflow="fold")
            for line in section.lines:
                shown = [", ".join(line.examples)] if with_texts else []
                table.add_row(*(Text(cell) for cell in [*line.cells, *shown]))
            if section.note:
                console.print(Text(section.note))
            console.print(table)
    return "\n".join(line.rstrip() for line in capture.get().split("\n")) + "\n"
