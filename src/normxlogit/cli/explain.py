"""The commands that explain texts and list the methods."""

import sys
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InputError
from ..inputs.texts import decoded, is_file_name
from ..results.storage.files import content_of
from . import options
from .console import check_output, deliver_result, format_for, layers_of, lines_of, quiet, write

if TYPE_CHECKING:
    from ..explainer import Explainer
    from ..methods import Method
    from ..results.collection import Attributions

VERIFIED_WORDS = "5"
"""How many words are removed by default, in formats for people."""

MOST_VERIFIED_TEXTS = 64
"""Most texts of which words are removed by default."""

TABLES = ("csv", "json")
"""Formats for programs, which have a row for each token."""


@options.loads_models
def explain(
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT...", help="The texts; - or none is standard input, one a line.")
    ] = None,
    file: Annotated[Path | None, typer.Option(metavar="FILE", help="Read texts from a UTF-8 file, one a line.")] = None,
    pair: Annotated[str | None, typer.Option(metavar="TEXT", help="Second text, for models of text pairs.")] = None,
    model: options.Model = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            callback=options.check_method,
            metavar="METHOD",
            help="NAME or NAME:SETTING=VALUE,..., see `normxlogit methods`; may be repeated.",
        ),
    ] = None,
    target: options.Targets = None,
    all_labels: options.AllLabels = False,
    contrast: options.Contrast = None,
    layers: options.LayerNumbers = None,
    long_text: Annotated[
        options.LongText,
        typer.Option(help="For a text over the model's length: read its beginning, all of it in windows, or stop."),
    ] = "truncate",
    verify: Annotated[
        str | None,
        typer.Option(
            metavar="N|KIND|WORDS",
            help="Run the model again without this many of the words of the highest scores (auto: look among all for a "
            "set that changes the answer), without each sentence or paragraph, or without words separated by commas. "
            "5 where one method is drawn, otherwise 0.",
        ),
    ] = None,
    words: Annotated[
        bool | None, typer.Option("--words/--tokens", help="Show words, the default where they can be told, or tokens.")
    ] = None,
    output_format: options.OutputFormat = None,
    output: options.OutputFile = None,
    loading: options.Loading = options.LOADING,
) -> None:
    """Colour the tokens that a model's answer rests on.

    Example: normxlogit explain "The movie is mediocre." --method occlusion:window=2
    """
    check_output(output, file)
    inputs = _inputs(texts or [], file)
    kind = output_format or format_for(output)
    keywords: dict[str, Any] = {"layers": layers_of(layers), "long_text": long_text}
    options.check_targets(target, all_labels)
    if kind in TABLES and words:
        raise InputError(f"{kind} has a row for each token; --words is for drawings")
    method_names = method or []
    if verify is None:
        verify = _verified_by_default(kind, method_names, inputs)
    keywords["verify"] = options.verified_units(verify)
    with quiet():
        from ..methods import method_named
        from ..render.cards import drawings, results_page
        from ..tasks.targets import typed_targets

        methods_to_use = list(map(method_named, method_names))
        explainer = loading.load(model)
        keywords |= typed_targets(explainer.task_model.task, target or [], contrast, all_labels=all_labels)
        results = _explained(explainer, inputs, pair, methods_to_use, keywords)
    page = results_page(results, words=words) if kind == "html" else None
    deliver_result(results, kind, output, drawings(results, words=words), page)


def methods() -> None:
    """List the methods, what each needs and where it comes from, and which are the defaults.

    Example: normxlogit methods
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from ..methods.defaults import DEFAULTS
    from ..methods.registry import list_methods

    of_methods = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 1, 0))
    of_defaults = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 1, 0))
    for table, first_heading, second_heading in (
        (of_methods, "method", "what it is"),
        (of_defaults, "default", "of"),
    ):
        table.add_column(first_heading, no_wrap=True)
        table.add_column(second_heading, ratio=1)
        table.add_column("passes", max_width=12)
    for info in list_methods():
        details = f"{info.paper}; needs {info.needs}"
        if info.signed:
            details += "; signed"
        if info.per_layer:
            details += "; single layers"
        of_methods.add_row(info.name, Text.assemble(info.summary, "\n", (details, "dim")), info.passes)
    for default in DEFAULTS.values():
        description = Text.assemble(default.calls, "\n", (default.why, "dim"))
        of_defaults.add_row("\n".join(default.methods), description, default.passes)
    write(lines_of(of_methods, of_defaults))


def _verified_by_default(kind: str, method_names: list[str], texts: list[str]) -> str | None:
    """Return the value of --verify if it is not given: some words where few texts are drawn by one method."""
    # Several methods would each remove words of their own.
    is_for_people = kind not in TABLES and len(method_names) <= 1 and len(texts) <= MOST_VERIFIED_TEXTS
    return VERIFIED_WORDS if is_for_people else None


def _explained(
    explainer: "Explainer", texts: list[str], pair: str | None, methods: "list[Method]", keywords: dict[str, Any]
) -> "Attributions[Any]":
    """Return the results of each text by all methods: all of the first text, then all of the second.

    Args:
        explainer: The model.
        texts: The texts.
        pair: The second text of each; None for single texts.
        methods: The methods; none for the default.
        keywords: Further arguments of the explainer.
    """
    from ..results.collection import Attributions

    inputs: list[Any] = texts if pair is None else [(text, pair) for text in texts]
    methods_or_default: list[Any] = methods or [None]
    results_by_method = [explainer(inputs, **keywords, method=method) for method in methods_or_default]
    results_by_text = zip(*results_by_method, strict=True)
    return Attributions(chain.from_iterable(results_by_text))


def _inputs(texts: list[str], file: Path | None) -> list[str]:
    """Return the texts of the arguments and the file, or of standard input if there are neither.

    Raises:
        InputError: If there is no text, or the name of a file in the place of one.
    """
    if file is not None:
        texts = texts + _lines(content_of(file), str(file))
    else:
        if texts == ["-"] or (not texts and not sys.stdin.isatty()):
            texts = _lines(sys.stdin.buffer.read(), "standard input")
        _check_no_files(texts)
    if not texts:
        raise InputError("no text: give it as an argument, or one on each line of a --file or of standard input")
    return texts


def _lines(content: bytes, name: str) -> list[str]:
    """Return the lines of a file that are not blank.

    Args:
        content: What the file holds.
        name: Its name, for errors.
    """
    return [line for line in decoded(content, name).split("\n") if line.strip()]


def _check_no_files(texts: list[str]) -> None:
    """Refuse the name of a file in the place of a text."""
    for text in texts:
        # A text without a suffix is a text, although a file may have this name, as a file "great" would.
        if Path(text).suffix and is_file_name(text):
            raise InputError(f"{text} is a file: --file {text} reads its lines, and `normxlogit attribute` tables")
