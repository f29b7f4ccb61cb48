"""The command that summarises a corpus run."""

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import InputError
from .console import Format, check_run_output, deliver, format_for
from .options import OutputFile, OutputFormat

if TYPE_CHECKING:
    from ..corpus.answer_summary import AnswerSummary
    from ..corpus.summary import Summary


def summarize(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="The folder that `normxlogit attribute` wrote.")],
    gold: Annotated[str | None, typer.Option(help="A kept column with the right labels, by name or number.")] = None,
    against: Annotated[str | None, typer.Option(help="Another run of the same texts to compare with.")] = None,
    top: Annotated[int, typer.Option(min=1, help="Words in each list.")] = 20,
    min_count: Annotated[int, typer.Option(min=1, help="Leave out words that occur less often.")] = 5,
    output_format: OutputFormat = None,
    output: OutputFile = None,
) -> None:
    """Show which words get high scores over a whole corpus; of answers, what they rest on.

    Example: normxlogit summarize out/ --output summary.html
    """
    kind = output_format or format_for(output)
    if kind == "csv":
        raise InputError("a summary is written as text, HTML or JSON, not as CSV")
    check_run_output(output, folder)
    from ..corpus.summary import summarize as run

    summary = run(folder, gold=gold, against=against, top=top, min_count=min_count)
    deliver(_written(summary, kind, to_file=output is not None), output)


def _written(summary: "Summary | AnswerSummary", kind: Format, *, to_file: bool) -> str:
    if kind == "json":
        return json.dumps(summary.to_dict(), indent=1) + "\n"
    from ..corpus.summary_page import page
    from ..render.terminal import wants_color

    return page(summary) if kind == "html" else _tables(summary, color=not to_file and wants_color(sys.stdout))


def _tables(summary: "Summary | AnswerSummary", *, color: bool) -> str:
    from ..corpus.summary_page import cards
    from ..render.blocks import Paragraph
    from ..render.terminal import text_of_blocks

    blocks = [block for card in cards(summary) for block in (Paragraph(card.heading), *card.blocks)]
    return text_of_blocks(blocks, color=color) + "\n"
