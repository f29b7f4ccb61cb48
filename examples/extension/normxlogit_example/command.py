"""A command of the command line: the strongest word of each text."""

from typing import Annotated

import typer

from normxlogit.cli import options
from normxlogit.cli.console import quiet, write


def strongest(
    texts: Annotated[list[str], typer.Argument(metavar="TEXT...", help="The texts.")],
    model: options.Model = None,
    method: options.MethodName = None,
) -> None:
    """Print the word that each answer rests on most.

    Example: normxlogit strongest "The movie is mediocre."
    """
    with quiet():
        from normxlogit import Explainer

        results = Explainer.from_pretrained(model)(texts, method=method)
    for result in results:
        word = max(result.words(), key=lambda word: word.score)
        write(f"{result.prediction.label}\t{word.text}\n")
