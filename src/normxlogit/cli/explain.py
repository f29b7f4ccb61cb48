"""The commands that explain texts and list the methods."""

import sys
from collections.abc import Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InputError, MethodError
from .console import Format, check_output, deliver, format_for, layer_numbers, quiet, write

if TYPE_CHECKING:
    from ..explainer import Explainer
    from ..results.attribution import Attribution

__all__ = ["explain", "methods"]

CHUNK = 64
"""Texts between two steps of the progress bar."""

NORM_METHODS = frozenset({"normxlogit", "input-norm"})


class LongText(str, Enum):
    """What to do with a text over the model's length."""

    window_first = "window-first"
    window = "window"
    error = "error"


class NormOf(str, Enum):
    """Whose norm the scores are multiplied with."""

    embedding_output = "embedding_output"
    word_embedding = "word_embedding"


class Merge(str, Enum):
    """How a word's score comes from its tokens'."""

    sum = "sum"
    max = "max"
    mean = "mean"
    first = "first"


def explain(
    texts: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT...", help="The texts; standard input, one a line, if none is given."),
    ] = None,
    file: Annotated[Path | None, typer.Option(help="Read texts from a UTF-8 file, one a line.")] = None,
    pair: Annotated[str | None, typer.Option(help="Second text, for models of text pairs.")] = None,
    model: Annotated[
        str | None, typer.Option(help="Name or folder of a model; the small sentiment model by default.")
    ] = None,
    method: Annotated[list[str] | None, typer.Option(help="Method, see `normxlogit methods`; may be repeated.")] = None,
    target: Annotated[
        str, typer.Option(help='What to explain: "predicted", "all", a label, its number, or a token.')
    ] = "predicted",
    contrast: Annotated[str | None, typer.Option(help="Label or token to subtract: why this and not that.")] = None,
    layers: Annotated[str | None, typer.Option(help='"all" or numbers such as 1,2,3; the last by default.')] = None,
    norm_of: Annotated[NormOf | None, typer.Option(help="Norm for normxlogit and input-norm.")] = None,
    long_text: Annotated[
        LongText,
        typer.Option(help="For a text over the model's length: its first window, all merged, or an error."),
    ] = LongText.window_first,
    words: Annotated[bool, typer.Option("--words", help="Merge tokens to words.")] = False,
    merge: Annotated[Merge, typer.Option(help="How a word's score comes from its tokens'.")] = Merge.sum,
    output_format: Annotated[
        Format | None, typer.Option("--format", help="By default from --output's name, else terminal.")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Write to a file instead of standard output.")] = None,
) -> None:
    """Colour the tokens that a model's answer rests on."""
    check_output(output, file)
    inputs = _inputs(texts or [], file)
    kind, chosen = output_format or format_for(output), layer_numbers(layers)
    calls = [(name, _settings(name, method or [], norm_of)) for name in method or ["normxlogit"]]
    common: dict[str, Any] = {"target": target, "contrast": contrast, "layers": chosen}
    common["long_text"] = "truncate" if long_text is LongText.window_first else long_text.value
    with quiet():
        from ..explainer import Explainer

        explainer = Explainer.from_pretrained(model)
        pairs = inputs if pair is None else [(text, pair) for text in inputs]
        results = _explain(explainer, pairs, calls, common)
    content = _render(results, kind, words, merge, output)
    deliver(content, output)


def methods() -> None:
    """List the methods: what each needs and where it comes from."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    with quiet():
        from ..methods import list_methods

        found = list_methods()
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("method", "what it is", "source", "needs", "signed", "per layer", "cost"):
        table.add_column(heading, overflow="fold", no_wrap=heading == "method")
    for info in found:
        flags = ["yes" if info.signed else "no", "yes" if info.per_layer else "no"]
        cells = [info.name, info.summary, info.paper, info.needs, *flags, info.passes]
        table.add_row(*(Text(cell) for cell in cells))
    console = Console(width=None if sys.stdout.isatty() else 200, highlight=False)
    with console.capture() as capture:
        console.print(table)
    write("\n".join(line.rstrip() for line in capture.get().strip("\n").split("\n")) + "\n")


def _inputs(texts: list[str], file: Path | None) -> list[str]:
    """Texts of the arguments and the file; standard input, unless it is a terminal, if there are neither."""
    if file is not None:
        try:
            texts = [*texts, *_lines(file.read_bytes(), str(file))]
        except OSError as error:
            raise InputError(f"cannot read {file}: {error.strerror}") from None
    elif not texts and not sys.stdin.isatty():
        texts = _lines(sys.stdin.buffer.read(), "standard input")
    if not texts:
        raise InputError("no text: give it as an argument, with --file, or on standard input, one text a line")
    if any(not text.strip() for text in texts):
        raise InputError("a text is empty: give at least one character other than white space")
    if any("\ud800" <= character <= "\udfff" for text in texts for character in text):
        raise InputError("a text is not UTF-8; check the encoding of the terminal or of the script")
    return texts


def _lines(content: bytes, name: str) -> list[str]:
    """The lines that are not blank."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(f"{name}, line {line}: not UTF-8 text; save it as UTF-8") from None
    if "\0" in text:
        raise InputError(f"{name}, line {text.count(chr(10), 0, text.index(chr(0))) + 1}: not a text file")
    lines = [line.removesuffix("\r") for line in text.split("\n") if line.strip()]
    if not lines:
        raise InputError(f"{name}: empty; put one text on each line")
    return lines


def _settings(name: str, names: list[str], norm_of: NormOf | None) -> dict[str, str]:
    """The settings of one of the methods; of several, those that have no norm go without `--norm-of`."""
    if norm_of is None:
        return {}
    if not NORM_METHODS.intersection(names or ["normxlogit"]):
        raise MethodError(f"--norm-of is a setting of normxlogit and input-norm, not of {', '.join(names)}")
    return {"norm_of": norm_of.value} if name in NORM_METHODS else {}


def _explain(
    explainer: "Explainer",
    inputs: Sequence[str | tuple[str, str]],
    calls: list[tuple[str, dict[str, str]]],
    common: dict[str, Any],
) -> list["Attribution"]:
    """Explain every text by every method; the methods of one text stand together."""
    results: list[Attribution] = []
    for chunk in _progress([inputs[i : i + CHUNK] for i in range(0, len(inputs), CHUNK)], len(inputs)):
        columns = [explainer(list(chunk), method=name, **common, **settings) for name, settings in calls]
        results.extend(result for row in zip(*columns, strict=True) for result in row)
    return results


def _progress(chunks: list[Sequence[Any]], total: int) -> Iterator[Sequence[Any]]:
    """The chunks, with a progress bar on standard error if there are several and somebody looks."""
    if len(chunks) < 2 or not sys.stderr.isatty():
        yield from chunks
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("explaining", total=total)
        for chunk in chunks:
            yield chunk
            progress.advance(task, len(chunk))


def _render(results: list["Attribution"], kind: Format, words: bool, merge: Merge, output: Path | None) -> str:
    if kind is Format.html:
        from ..render.html import page

        return page(results, words=words, merge=merge.value)
    if kind is Format.csv:
        from ..results.collection import Attributions

        return Attributions(results).to_csv()
    if kind is Format.json:
        from ..results.base import FORMAT_VERSION
        from ..results.files import json_text

        states = [_state(result, words, merge) for result in results]
        utf8 = output is not None or "utf" in (sys.stdout.encoding or "").lower()
        return json_text({"format_version": FORMAT_VERSION, "attributions": states}, ascii_only=not utf8)
    from ..render.terminal import to_text

    color = None if output is None else False
    return "\n\n".join(to_text(result, words=words, merge=merge.value, color=color) for result in results) + "\n"


def _state(result: "Attribution", words: bool, merge: Merge) -> dict[str, Any]:
    """The result as `Attribution.from_dict` reads it, with its words beside if they are asked for."""
    state = result.to_dict()
    if words:
        from ..results.fields import plain

        state["words"] = plain(result.words(merge.value))
    return state
