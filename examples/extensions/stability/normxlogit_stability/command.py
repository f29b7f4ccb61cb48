"""The command: `normxlogit stability TEXT`."""

from typing import Annotated

import typer

from normxlogit.cli import options
from normxlogit.cli.console import deliver_result, format_for, quiet


def stability(
    text: Annotated[str, typer.Argument(help="The text.")],
    model: options.Model = None,
    method: options.MethodName = None,
    output: options.OutputFile = None,
) -> None:
    """Show whether the answer stays the same in other spellings of a text.

    Example: normxlogit stability "The movie is mediocre."
    """
    with quiet():
        from normxlogit import Explainer

        result = Explainer.from_pretrained(model).stability(text, method=method)
    deliver_result(result, format_for(output), output)
