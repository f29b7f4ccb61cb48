"""The command that transcribes a sound, and shows which moments each word rests on."""

from pathlib import Path
from typing import Annotated

import typer

from ..cli import options
from ..cli.console import deliver_result, format_for, quiet, status


@options.loads_models
def transcribe(
    sound: Annotated[Path, typer.Argument(metavar="FILE", help="A sound file, such as WAV or FLAC.")],
    model: Annotated[
        str, typer.Option(metavar="NAME|FOLDER", help="Name or folder of a speech model, such as Whisper or Wav2Vec2.")
    ] = "",
    max_new_tokens: options.MaxNewTokens = 200,
    method: options.MethodName = None,
    output_format: options.OutputFormat = None,
    output: options.OutputFile = None,
    verify: options.VerifyCount = None,
    loading: options.Loading = options.LOADING,
) -> None:
    """Transcribe a sound by a model of speech, and show which moments each word rests on.

    Example: normxlogit transcribe talk.wav --model FOLDER --output why.html
    """
    options.required(model, "name a speech model with --model; the model in the package is a classifier of texts")
    kind = output_format or format_for(output)
    with quiet():
        explainer = loading.load(model)
        with status("transcribing, and explaining each token"):
            result = explainer.transcribe(
                sound, max_new_tokens=max_new_tokens, method=method, verify=options.verified_units(verify)
            )
    deliver_result(result, kind, output)
