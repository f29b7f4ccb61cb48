"""Output of all commands: text that any terminal can show, files, progress, and quiet libraries."""

import os
import shutil
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..errors import DataError, InputError
from ..results.storage.files import json_text, replacing, write_text
from ..results.units.characters import safe_output

if TYPE_CHECKING:
    from rich.table import Table

    from ..render.blocks import Block
    from ..tasks.targets import Layers

WIDEST = 110
"""Most characters of a line of a list, as wider ones are hard to read."""

Format = Literal["terminal", "json", "html", "csv"]
"""The values of `--format`."""

OutputKind = Format | Literal["figure"]
"""Kinds of output: the formats, and a figure, which is chosen by the name of a file alone."""

_SUFFIXES: dict[str, OutputKind] = {
    **dict.fromkeys(("", ".txt", ".md", ".log"), "terminal"),
    ".json": "json",
    ".html": "html",
    ".htm": "html",
    ".csv": "csv",
    **dict.fromkeys((".svg", ".png", ".pdf"), "figure"),
}
"""The kind of output by the end of a file's name."""


def write(text: str) -> None:
    """Write to standard output, without control sequences other than colours; unencodable characters become "?".

    Raises:
        DataError: If it cannot be written to, such as a full disk.
    """
    encoding = sys.stdout.encoding or "utf-8"
    text = safe_output(text)
    try:
        sys.stdout.write(text.encode(encoding, errors="replace").decode(encoding))
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has enough, as `head` does: Typer ends the program
        raise
    except OSError as error:
        raise DataError(f"cannot write to standard output: {error.strerror}") from None


def lines_of(*tables: "Table", narrowest: int = 0) -> str:
    """Return rich's tables as lines for a terminal.

    Args:
        *tables: The tables.
        narrowest: The least width in characters, also where the terminal is narrower.
    """
    from rich.console import Console

    width = max(narrowest, shutil.get_terminal_size((80, 24)).columns)
    console = Console(width=min(WIDEST, width), highlight=False, markup=False)
    with console.capture() as capture:
        console.print(*tables)
    # Rich pads lines with blanks.
    return "\n".join(line.rstrip() for line in capture.get().strip("\n").split("\n")) + "\n"


def deliver_result(
    result: Any,
    kind: OutputKind,
    output: Path | None,
    drawings: "Sequence[Sequence[Block]] | None" = None,
    page: str | None = None,
) -> None:
    """Write a result, or several, in a format, to a file or to standard output.

    If the file is a page or a figure, which a terminal does not show, the result is also drawn on standard output.

    Args:
        result: A result, or a collection of them.
        kind: The format.
        output: The file; None for standard output.
        drawings: What a terminal shows of each result, a list of blocks; None for what `cards.drawings` makes of them.
        page: The page of HTML; None for the result's own.

    Raises:
        InputError: If the result has no figure, and that is the format.
        DataError: If it cannot be written.
    """
    if output is None:
        # Standard output may not encode characters beyond ASCII.
        is_ascii = "utf" not in (sys.stdout.encoding or "").lower()
        write(_content(result, kind, drawings, page, ascii_only=is_ascii))
        return
    if kind == "figure":
        _save_figure(result, output)
    else:
        write_text(_content(result, kind, drawings, page, color=False), output)
    sys.stderr.write(f"wrote {safe_output(str(output))}\n")
    if kind in ("html", "figure"):
        write(_drawn(result, drawings))


def _content(
    result: Any,
    kind: OutputKind,
    drawings: "Sequence[Sequence[Block]] | None",
    page: str | None,
    *,
    ascii_only: bool = False,
    color: bool | None = None,
) -> str:
    """Return a result as text, in a format other than "figure".

    Args:
        result: A result, or a collection of them.
        kind: The format.
        drawings: As in `deliver_result`.
        page: As in `deliver_result`.
        ascii_only: Whether JSON has escapes for characters beyond ASCII.
        color: Whether lines for a terminal have colours; None where standard output shows them.
    """
    if kind == "html":
        return page or str(result.to_html())
    if kind == "csv":
        return str(result.to_csv())
    if kind == "json":
        return json_text(result.to_dict(), ascii_only=ascii_only)
    return _drawn(result, drawings, color=color)


def _save_figure(result: Any, output: Path) -> None:
    """Write the figure of a result, or of the only one of a collection."""
    single: Any = result[0] if isinstance(result, Sequence) and len(result) == 1 else result
    if not hasattr(single, "plot"):
        raise InputError(f"there is no {output.suffix} of it; end --output in .json, .html, .csv or .txt")
    with replacing(output) as temporary:
        single.plot().savefig(temporary)


def _drawn(result: Any, drawings: "Sequence[Sequence[Block]] | None", *, color: bool | None = None) -> str:
    """Return results as lines for a terminal."""
    from ..render import cards
    from ..render.terminal import text_of_blocks
    from ..results.collection import Attributions

    if drawings is None:
        drawings = cards.drawings(result if isinstance(result, Attributions) else Attributions([result]))
    return "\n\n".join(text_of_blocks(blocks_of_result, color=color) for blocks_of_result in drawings) + "\n"


def format_for(output: Path | None) -> OutputKind:
    """Return the format that a file's name asks for; the one for a terminal without a file.

    Raises:
        InputError: If no format has such a name.
    """
    suffix = output.suffix.lower() if output is not None else ""
    if suffix not in _SUFFIXES:
        endings = ", ".join(filter(None, _SUFFIXES))
        raise InputError(f"cannot write {suffix} files; end --output in one of {endings}, or give --format")
    return _SUFFIXES[suffix]


def check_output(output: Path | None, *sources: Path | None) -> None:
    """Refuse an output file that is also an input.

    Args:
        output: The output file; None for standard output.
        *sources: The files that are read; None for those that are not given.

    Raises:
        InputError: If they are the same file, also by different names.
    """
    if output is not None and output.exists():
        for source in sources:
            if source is not None and source.exists() and output.samefile(source):
                raise InputError(f"--output {output} is the file that is read; write to another")


def layers_of(layers: str | None) -> "Layers":
    """Parse `--layers`: "all", or the numbers of layers with commas between them; None for the last layer.

    Raises:
        InputError: If it is neither.
    """
    if layers is None:
        return None
    if layers == "all":
        from ..tasks.targets import ALL

        return ALL
    try:
        return [int(layer) for layer in layers.split(",")]
    except ValueError:
        raise InputError(f'--layers takes "all" or numbers such as 1,2,3, not {layers!r}') from None


@contextmanager
def quiet() -> Iterator[None]:
    """Hide the progress bars and warnings of other libraries inside the block."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # else tokenizers warn when the process forks
    from transformers.utils import logging

    verbosity = logging.get_verbosity()
    shows_bars = logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(verbosity)
        if shows_bars:
            with warnings.catch_warnings():  # transformers warns if the environment disables progress bars
                warnings.simplefilter("ignore")
                logging.enable_progress_bar()


@contextmanager
def status(text: str) -> Iterator[None]:
    """Show a text, which says what is done, while the block runs, if that takes longer than a second."""
    from ..pipeline.progress import progress_bar

    with progress_bar(1, show=None, description=text):
        yield
