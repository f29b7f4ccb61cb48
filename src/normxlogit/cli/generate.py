"""The command that lets a language model write and shows what each token rests on."""

import sys
from typing import Annotated, Any

import typer

from ..errors import InputError
from .console import Format, ascii_only, deliver, format_for, layers_of, quiet
from .explain import targets_of
from .options import AUTO, Device, DType, GGUFFile, LayerNumbers, OutputFile, OutputFormat, loading

__all__ = ["generate"]


def generate(
    prompt: Annotated[
        str | None, typer.Argument(metavar="PROMPT", help="The text to continue; standard input if none is given.")
    ] = None,
    model: Annotated[str, typer.Option(help="Name or folder of a language model, causal or encoder-decoder.")] = "",
    gguf_file: GGUFFile = None,
    device: Device = AUTO,
    dtype: DType = None,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Most tokens to write.")] = 40,
    completion: Annotated[
        str | None, typer.Option(help="Explain this continuation (mind its first space) instead of the model's own.")
    ] = None,
    chat: Annotated[
        bool, typer.Option("--chat", help="Send the prompt as a message, through the model's chat template.")
    ] = False,
    method: Annotated[
        str | None, typer.Option(help="Method, see `normxlogit methods`; by default frozen-gradient.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="A token to explain at every place; by default each written token itself.")
    ] = None,
    contrast: Annotated[str | None, typer.Option(help="Token to subtract: why this and not that.")] = None,
    layers: LayerNumbers = None,
    output_format: OutputFormat = None,
    output: OutputFile = None,
) -> None:
    """Continue a text, and show what each written token rests on."""
    if not model:
        raise InputError("name a language model with --model; the model in the package is a classifier")
    if prompt is None:
        if sys.stdin.isatty():
            raise InputError("no prompt: give it as an argument or on standard input")
        try:
            prompt = sys.stdin.buffer.read().decode("utf-8-sig").rstrip("\r\n")
        except UnicodeDecodeError:
            raise InputError("standard input is not UTF-8 text") from None
    kind = output_format or format_for(output)
    given = [{"role": "user", "content": prompt}] if chat else prompt
    options: dict[str, Any] = {"layers": layers_of(layers)}
    with quiet():
        from ..explainer import Explainer

        explainer = Explainer.from_pretrained(model, **loading(device, dtype, gguf_file))
        options |= targets_of(explainer, [] if target is None else [target], contrast)
        if completion is None:
            result = explainer.generate(given, max_new_tokens=max_new_tokens, method=method, **options)
        else:
            result = explainer.explain_completion(given, completion, method=method, **options)
    if kind is Format.html:
        content = result.to_html()
    elif kind is Format.csv:
        content = result.to_csv()
    elif kind is Format.json:
        from ..results.files import json_text

        content = json_text(result.to_dict(), ascii_only=ascii_only(output))
    else:
        from ..render.terminal import text_of_blocks

        content = text_of_blocks(result._blocks(), color=None if output is None else False) + "\n"
    deliver(content, output)
