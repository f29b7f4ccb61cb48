"""The command that answers a question from documents and cites the sentences that the answer rests on."""

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ..errors import DataError, InputError
from .console import Format, ascii_only, check_output, deliver, format_for, quiet
from .options import AUTO, Device, DType, GGUFFile, OutputFile, OutputFormat, loading

__all__ = ["cite"]

SUFFIXES = (".txt", ".md", ".markdown")
"""Files that are read of a folder."""


def cite(
    documents: Annotated[
        list[str] | None,
        typer.Argument(metavar="DOCUMENTS...", help="Text or Markdown files or folders; - or none is standard input."),
    ] = None,
    question: Annotated[str, typer.Option(help="The question.")] = "",
    model: Annotated[str, typer.Option(help="Name or folder of a language model, causal or encoder-decoder.")] = "",
    gguf_file: GGUFFile = None,
    device: Device = AUTO,
    dtype: DType = None,
    system: Annotated[str | None, typer.Option(help="What the system message says.")] = None,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Most tokens to write.")] = 200,
    method: Annotated[
        str | None, typer.Option(help="Method, see `normxlogit methods`; by default frozen-gradient.")
    ] = None,
    verify: Annotated[
        str,
        typer.Option(
            help='Take this many of the first sources out, one by one, and say what that costs; "auto" goes on until '
            "the others can no longer come first."
        ),
    ] = "0",
    output_format: OutputFormat = None,
    output: OutputFile = None,
) -> None:
    """Answer a question from documents, and show which of their sentences the answer rests on."""
    if not model:
        raise InputError("name a language model with --model; the model in the package is a classifier")
    if not question.strip():
        raise InputError("give a question with --question")
    if verify != "auto" and not verify.isdecimal():
        raise InputError(f"--verify takes a number of sources or 'auto', not {verify!r}")
    kind = output_format or format_for(output)
    if kind is Format.csv:
        raise InputError("citations are written as text, HTML or JSON, not as CSV")
    texts, notes = read_documents(documents or ["-"], output)
    with quiet():
        from ..explainer import Explainer
        from ..results.files import json_text

        explainer = Explainer.from_pretrained(model, **loading(device, dtype, gguf_file))
        result = explainer.cite(
            question,
            texts,
            system=system,
            max_new_tokens=max_new_tokens,
            method=method,
            verify="auto" if verify == "auto" else int(verify),
        )
        result = replace(result, notes=(*notes, *result.notes))
    if kind is Format.html:
        content = result.to_html()
    elif kind is Format.json:
        content = json_text(result.to_dict(), ascii_only=ascii_only(output))
    else:
        from ..render.sources import to_text

        content = to_text(result, color=None if output is None else False) + "\n"
    deliver(content, output)


def read_documents(places: list[str], output: Path | None = None) -> tuple[dict[str, str], list[str]]:
    """Read documents, by their names; what a folder holds that is no UTF-8 text is left out.

    Args:
        places: Files, folders (of which every .txt and .md file is read) or "-" for standard input.
        output: Where the answer will be written; none of them.

    Returns:
        The documents, and a note of each file of a folder that was left out.

    Raises:
        DataError: If one cannot be read or is no UTF-8 text, or a folder holds no document.
        InputError: If standard input is a terminal, or the answer would be written over a document.
    """
    files: dict[Path, Path] = {}  # each once, by where it really is
    asked: set[Path] = set()  # those that are named themselves
    found: dict[str, str] = {}
    left: list[DataError] = []
    for place in dict.fromkeys(places):
        if place == "-":
            if sys.stdin.isatty():
                raise InputError("no documents: name files or folders, or give a text on standard input")
            found["standard input"] = _text(sys.stdin.buffer.read(), "standard input")
            continue
        path = Path(place)
        for file in _files(path) if path.is_dir() else [path]:
            files.setdefault(file.resolve(), file)
        if not path.is_dir():
            asked.add(path.resolve())
    check_output(output, *files.values())
    for name, file in _named(list(files.values())).items():
        try:
            content = file.read_bytes()
        except OSError as error:
            raise DataError(f"cannot read {file}: {error.strerror}") from None
        try:
            found[name] = _text(content, str(file))
        except DataError as error:
            if file.resolve() in asked:
                raise
            left.append(error)
    if left and not found:
        raise left[0]
    return found, [f"{error}; it was left out" for error in left]


def _named(files: list[Path]) -> dict[str, Path]:
    """Return files by their names; those of one name by as much of their paths as tells them apart."""
    found = {}
    for file in files:
        same = [str(other.absolute().parent) for other in files if other.name == file.name]
        found[file.absolute().relative_to(os.path.commonpath(same)).as_posix()] = file
    return found


def _files(folder: Path) -> list[Path]:
    """Return the documents in a folder and the folders in it, but for hidden ones.

    Raises:
        DataError: If there is none.
    """
    found = sorted(
        file
        for file in folder.rglob("*")
        if file.suffix.lower() in SUFFIXES
        and file.is_file()
        and not any(part.startswith(".") for part in file.relative_to(folder).parts)
    )
    if not found:
        raise DataError(f"{folder}: no {', '.join(SUFFIXES)} file in this folder")
    return found


def _text(content: bytes, name: str) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DataError(f"{name} is not UTF-8 text") from None
    if "\0" in text:  # such as UTF-16
        raise DataError(f"{name} is not UTF-8 text")
    return text.replace("\r\n", "\n")
