"""The command that writes down a sound, and shows which moments each word rests on."""

from pathlib import Path
from typing import Annotated

import typer

from .console import deliver_result, format_for, quiet
from .options import (
    AUTO,
    NO_LANGUAGE_MODEL,
    Device,
    DType,
    GGUFFile,
    LanguageModel,
    MaxNewTokens,
    MethodName,
    OutputFile,
    OutputFormat,
    load,
    required,
)


def transcribe(
    sound: Annotated[Path, typer.Argument(metavar="FILE", help="A sound file, such as WAV or FLAC.")],
    model: LanguageModel = "",
    gguf_file: GGUFFile = None,
    device: Device = AUTO,
    dtype: DType = None,
    max_new_tokens: MaxNewTokens = 200,
    method: MethodName = None,
    output_format: OutputFormat = None,
    output: OutputFile = None,
) -> None:
    """Write down a sound by a model of speech, and show which moments each word rests on.

    Example: normxlogit transcribe talk.wav --model FOLDER --output why.html
    """
    required(model, NO_LANGUAGE_MODEL)
    kind = output_format or format_for(output)
    with quiet():
        explainer = load(model, device, dtype, gguf_file)
        result = explainer.generate(sound, max_new_tokens=max_new_tokens, method=method)
    deliver_result(result, kind, output)
