"""The command that measures what explanations cost: benchmark speed, memory, peers."""

import json
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .console import deliver, progress, quiet, write

if TYPE_CHECKING:
    from ..paper.costs.speed import Row

__all__ = ["benchmark"]

benchmark = typer.Typer(help="Measure what explanations cost.", no_args_is_help=True)

Rounds = Annotated[int, typer.Option(min=1, help="Counted rounds; figures are their medians.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Threads of torch; by default as many as it takes.")]
Output = Annotated[Path | None, typer.Option(help="Also write the figures to this JSON file.")]


class LanguageModel(str, Enum):
    """A shape of causal language model."""

    smollm2 = "smollm2-135m"
    llama2 = "llama-2-7b"


@benchmark.callback()
def _benchmark() -> None:
    """Measure what explanations cost."""


@benchmark.command()
def speed(
    rows: Annotated[str, typer.Option(help='"all", or names separated by spaces, such as "one-text corpus".')] = "all",
    rounds: Rounds = 7,
    threads: Threads = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder with SST-2's validation.jsonl; else random words of its lengths.")
    ] = None,
    language_model: Annotated[
        LanguageModel,
        typer.Option(
            help="Shape of the rows next-token and generated, random weights; llama-2-7b takes 14 GB in bfloat16 and "
            "reads 2048 tokens."
        ),
    ] = LanguageModel.smollm2,
    output: Output = None,
) -> None:
    """The time of explanations over that of forward passes, with a bound on each row."""
    with quiet():
        from ..evaluation.datasets import load_examples
        from ..paper.costs import speed as efficiency

        _use(threads)
        texts = None if data_dir is None else [str(e.text) for e in load_examples("sst2", data_dir=data_dir)]
        setup = efficiency.Setup(rounds=rounds, texts=texts, **efficiency.LANGUAGE_MODELS[language_model.value])
        with progress(1) as step:
            found = list(efficiency.measure(setup, None if rows == "all" else rows.split(), on_progress=step))
    _show(found, output)


@benchmark.command()
def memory(
    batch: Annotated[int, typer.Option(min=1, help="Texts at once.")] = 16,
    length: Annotated[int, typer.Option(min=1, max=512, help="Tokens of each.")] = 512,
    rounds: Rounds = 7,
    threads: Threads = None,
    output: Output = None,
) -> None:
    """The peak memory of an explanation over that of the forward pass, each in a process of its own."""
    with quiet():
        from ..paper.costs.memory import extra_memory

        _use(threads)
        with progress(1) as step:
            found = extra_memory(batch=batch, length=length, rounds=rounds, on_progress=step)
    _show([found], output)


@benchmark.command()
def peers(
    packages: Annotated[str, typer.Option(help='"all", or names separated by spaces.')] = "all",
    model: Annotated[
        str | None, typer.Option(help="Folder of a classifier; the small sentiment model by default.")
    ] = None,
    text: Annotated[str | None, typer.Option(help="The sentence.")] = None,
    rounds: Rounds = 7,
    threads: Threads = None,
    output: Output = None,
) -> None:
    """The same sentence through other packages; each is installed into an environment that is then thrown away."""
    with quiet():
        from dataclasses import asdict

        from ..paper.costs import peers as others
        from ..paper.costs.timing import environment

        _use(threads)
        chosen = others.PEERS if packages == "all" else tuple(packages.split())
        found = list(
            others.compare(
                chosen,
                model=model,
                text=text or others.SENTENCE,
                rounds=rounds,
                on_progress=lambda name: typer.echo(f"{name} ...", err=True),
            )
        )
        about = environment()
    _deliver(others.as_table(found), {"environment": about, "rows": [asdict(r) for r in found]}, output)


def _use(threads: int | None) -> None:
    import torch

    if threads is not None:
        torch.set_num_threads(threads)


def _show(found: list["Row"], output: Path | None) -> None:
    from ..paper.costs.speed import as_state, as_table

    _deliver(as_table(found), as_state(found), output)


def _deliver(table: str, state: dict[str, Any], output: Path | None) -> None:
    heading = ", ".join(f"{key}: {value}" for key, value in state["environment"].items())
    write(f"{heading}\n\n{table}")
    if output is not None:
        deliver(json.dumps(state, indent=1) + "\n", output)
