"""The command that compares two models."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ..cli import options
from ..cli.console import deliver_result, format_for, quiet, write
from ..errors import InputError
from ..long_runs.table_files import SUFFIXES


def compare_models(
    before: Annotated[str, typer.Argument(help='Name or folder of a model; "default" is the one in the package.')],
    after: Annotated[str, typer.Argument(help="Name or folder of the other model, or of its adapter.")],
    texts: Annotated[
        list[str], typer.Argument(metavar="TEXT...", help="Texts, prompts, or one Parquet, CSV or JSONL file.")
    ],
    completion: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Of language models, what follows each prompt.")
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help='Of a file, the column of texts, by default "text"; of pairs two.'),
    ] = None,
    target: Annotated[
        str | None,
        options.explained(metavar="LABEL", help="Label to compare; by default the answer after."),
    ] = None,
    contrast: options.Contrast = None,
    method: options.MethodName = None,
    verify: Annotated[
        str, typer.Option(metavar="N|WORDS", help="Leave so many words out in both models, or these; 0 for none.")
    ] = "3",
    output_format: options.OutputFormat = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE|FOLDER", help="A file; of a table of texts a new folder.")
    ] = None,
    device: options.Device = options.AUTO,
    dtype: options.DType = None,
    trust_remote_code: options.TrustRemoteCode = False,
) -> None:
    """Show where two models answer differently, and which words carry the difference.

    Example: normxlogit compare-models default FOLDER reviews.parquet --output out/
    """
    folder = _folder_of_table(texts, output)
    removed = options.verified_units(verify)
    settings: dict[str, Any] = {"target": target, "contrast": contrast, "method": method, "verify": removed}
    with quiet():
        from ..render.terminal import text_of_blocks
        from .table import compare_table

        loading = options.Loading(device, dtype, trust_remote_code=trust_remote_code)
        explainer_before, explainer_after = (
            loading.load(None if name == "default" else name) for name in (before, after)
        )
        if folder is not None:
            table = Path(texts[0])
            summary = compare_table(explainer_before, explainer_after, table, folder, column or ["text"], **settings)
            write(text_of_blocks(summary.blocks()) + "\n")
            return
        kind = output_format or format_for(output)
        # The command takes one completion, which follows each of its prompts.
        completions = None if completion is None else [completion] * len(texts)
        results = explainer_after.compare_models(explainer_before, texts, completions, **settings)
    deliver_result(results, kind, output)


def _folder_of_table(texts: list[str], output: Path | None) -> Path | None:
    """Return the folder that the comparison of a table of texts is written to; None of texts themselves.

    Args:
        texts: The arguments of the command: texts, or the name of a table.
        output: The folder that is named; None for none.
    """
    # Of several arguments all are texts, also names of files.
    if len(texts) > 1 or Path(texts[0]).suffix not in SUFFIXES:
        return None
    if output is None:
        raise InputError("a table of texts is compared into a folder: give --output")
    return output
