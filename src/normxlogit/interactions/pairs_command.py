"""The command that shows which units act together."""

from typing import Annotated, Any

import typer

from ..cli import options
from ..cli.console import deliver_result, format_for, quiet


@options.loads_models
def pairs(
    text: Annotated[str, typer.Argument(help="A text, or with --completion a prompt.")],
    second: Annotated[str | None, typer.Argument(metavar="SECOND", help="The second text of a pair.")] = None,
    model: options.Model = None,
    completion: Annotated[str | None, typer.Option(metavar="TEXT", help="What follows the prompt.")] = None,
    budget: Annotated[int, typer.Option(min=1, metavar="N", help="How often the model is asked at most.")] = 64,
    units: Annotated[
        str | None, typer.Option(metavar="KIND", help="word, sentence or paragraph; of a prompt by default sentence.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(metavar="LABEL", help="A label; the prediction if none is given.")
    ] = None,
    contrast: options.Contrast = None,
    method: options.MethodName = None,
    output_format: options.OutputFormat = None,
    output: options.OutputFile = None,
    loading: options.Loading = options.LOADING,
) -> None:
    """Show which words of a text act together, or which sentences of a prompt.

    Example: normxlogit pairs "not bad at all"
    """
    with quiet():
        explainer = loading.load(model)
        settings: dict[str, Any] = {"budget": budget, "units": units, "target": target}
        inputs: Any = text if second is None else (text, second)
        result: Any = explainer.pairs(inputs, completion, contrast=contrast, method=method, **settings)
    deliver_result(result, output_format or format_for(output), output)
