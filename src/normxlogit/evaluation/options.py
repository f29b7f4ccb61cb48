"""Options of the commands that measure methods: what is measured, on which texts, how often."""

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import typer

from ..cli.options import check_method
from ..errors import InputError
from ..long_runs.console import GoldLabelsOption

if TYPE_CHECKING:
    from ..methods import Method
    from .datasets import Examples

Protocol = Literal["default", "published"]
"""The protocols of perturbation."""

BOTH_NORMS = ("normxlogit", "input-norm")
"""Methods that "all" lists with both of their norms."""


def method_names(value: str) -> list[str]:
    """Split --methods at spaces or commas; a comma before SETTING=VALUE continues the settings."""
    return [name for name in re.split(r"[\s]+|,(?!\s*[\w-]+=)", value) if name]


def check_methods(value: str | None) -> str | None:
    """Return --methods with each method's name here; refuse one that does not exist, as `check_method` does."""
    if value is None:
        return None
    return " ".join(name if name == "all" else check_method(name) for name in method_names(value))


def methods_of(methods: str) -> "list[Method]":
    """Return the methods of a command line with their settings; "all" are those that are registered."""
    from ..methods import list_methods, method_named

    if not (names := method_names(methods)):
        raise InputError('--methods takes "all", or names separated by spaces')
    if names == ["all"]:
        norms = {name: [name, f"{name}:norm_of=word_embedding"] for name in BOTH_NORMS}
        names = [spec for info in list_methods() for spec in norms.get(info.name, [info.name])]
    return [method_named(name) for name in names]


DATA, MEASURING = "Texts and labels", "How it is measured"
"""Panels of the help."""

_data_option = partial(typer.Option, rich_help_panel=DATA)
_measuring = partial(typer.Option, rich_help_panel=MEASURING)

Methods = Annotated[
    str | None,
    typer.Option(
        callback=check_methods,
        metavar="METHODS",
        help='"all", or names separated by spaces; settings as name:setting=value,setting=value. By default those that '
        "the page on this measurement compares.",
    ),
]
Dataset = Annotated[
    str,
    typer.Option(
        metavar="NAME|FILE",
        help="reviews (100 sentences in the package), sst2, mnli, qnli, stsb, a file or a hub name.",
    ),
]
DataDir = Annotated[
    Path | None,
    _data_option(metavar="FOLDER", help="Folder with SPLIT.jsonl, .parquet, .csv or .tsv; else the hub."),
]
Split = Annotated[
    str,
    _data_option(metavar="SPLIT", help="Which split: choose settings on train, report validation."),
]
Columns = Annotated[
    str | None,
    _data_option(metavar="COLUMN", help="The text column, or two separated by a comma."),
]
LabelColumn = Annotated[str, _data_option(metavar="COLUMN", help="The column of gold labels.")]
Limit = Annotated[int | None, typer.Option(min=1, metavar="N", help="Only the first texts.")]
MostQuestions = Annotated[int, typer.Option(min=1, metavar="N", help="Most questions.")]
Rounds = Annotated[
    int,
    _measuring(min=1, metavar="N", help="Of the timing; a third of them where a method is slow."),
]
Seed = Annotated[
    int,
    _measuring(min=0, metavar="N", help="Seed of the bootstrap, and of what is drawn at random."),
]


class Data(NamedTuple):
    """The labelled texts on which methods are measured."""

    dataset: Dataset = "reviews"
    data_dir: DataDir = None
    split: Split = "validation"
    columns: Columns = None
    label_column: LabelColumn = "label"
    gold_labels: GoldLabelsOption = None
    limit: Limit = None

    def examples(self, dataset: str) -> "Examples":
        """Return the labelled texts of a data set."""
        from .datasets import load_examples

        columns = self.columns.split(",") if self.columns else ()
        named = {name: value for name, value in self._asdict().items() if name not in ("dataset", "columns")}
        return load_examples(dataset, columns=columns, **named)


DATA_OPTIONS = Data()
"""The defaults."""
