"""The command that summarises a corpus run."""

from typing import Annotated

import typer

from ..cli import options
from ..cli.console import deliver_result, format_for, quiet
from ..errors import InputError


def summarize(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="The folder that `normxlogit attribute` wrote.")],
    gold: Annotated[str | None, typer.Option(help="A kept column with the right labels, by name or number.")] = None,
    top: Annotated[int, typer.Option(min=1, help="Words in each list.")] = 15,
    min_count: Annotated[int, typer.Option(min=1, help="Leave out words that occur less often.")] = 5,
    verify: Annotated[
        int | None,
        typer.Option(min=1, help="Find wrong reasons; take each out of so many texts (--model)."),
    ] = None,
    model: Annotated[str | None, typer.Option(help="The run's model, for --verify; by default by its name.")] = None,
    gguf_file: options.GGUFFile = None,
    trust_remote_code: options.TrustRemoteCode = False,
    device: options.Device = options.AUTO,
    dtype: options.DType = None,
    output_format: options.OutputFormat = None,
    output: options.OutputFile = None,
) -> None:
    """Show which words get high scores over a whole corpus; of answers, the verdicts on them.

    Example: normxlogit summarize out/ --output summary.html
    """
    kind = output_format or format_for(output)
    if kind == "csv":
        raise InputError("a summary is written as text, HTML or JSON, not as CSV")
    from ..render.blocks import Block, Paragraph
    from .folder import Folder
    from .summaries.page import summary_cards, summary_page
    from .summaries.summary import summarize as run

    explainer = None
    if verify is not None:
        manifest = Folder(folder).read_manifest()
        with quiet():
            name = model or (manifest.model if manifest else None)
            explainer = options.load(
                None if name == options.DEFAULT_MODEL else name, device, dtype, gguf_file, trust_remote_code
            )
    summary = run(folder, gold=gold, top=top, min_count=min_count, verify=verify, explainer=explainer)
    blocks: list[Block] = []
    for card in summary_cards(summary):
        blocks += [*([Paragraph(card.heading)] if card.heading else []), *card.blocks]
    deliver_result(summary, kind, output, [blocks], summary_page(summary) if kind == "html" else None)
