"""The command that transcribes a sound, and shows which moments each word rests on."""

from pathlib import Path
from typing import Annotated

import typer

from . import options
from .console import deliver_result, format_for, quiet


def transcribe(
    sound: Annotated[Path, typer.Argument(metavar="FILE", help="A sound file, such as WAV or FLAC.")],
    model: options.LanguageModel = "",
    gguf_file: options.GGUFFile = None,
    device: options.Device = options.AUTO,
    dtype: options.DType = None,
    max_new_tokens: options.MaxNewTokens = 200,
    method: options.MethodName = None,
    output_format: options.OutputFormat = None,
    output: options.OutputFile = None,
) -> None:
    """Transcribe a sound by a model of speech, and show which moments each word rests on.

    Example: normxlogit transcribe talk.wav --model FOLDER --output why.html
    """
    options.required(model, options.NO_LANGUAGE_MODEL)
    kind = output_format or format_for(output)
    with quiet():
        explainer = options.load(model, device, dtype, gguf_file)
        result = explainer.generate(sound, max_new_tokens=max_new_tokens, method=method)
    deliver_result(result, kind, output)
