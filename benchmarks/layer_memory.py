"""Peak memory of the frozen gradient read at all layers, beside the word embeddings alone and the forward pass."""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from normxlogit import Explainer
from normxlogit.errors import DataError
from paper.costs.memory import FORWARD, GIVE_BACK
from paper.costs.peak import Peak
from paper.costs.random_models import random_bert, random_ids, reference_tokenizer

from .random_models import SMOLLM2, language_model

__all__ = ["MODELS", "Peaks", "as_table", "compare"]

MODELS = {"bert": "BERT-base, 12 layers", "llama": "Llama of SmolLM2-135M's shape, 30 layers"}
METHODS = (FORWARD, "frozen-gradient:read_at=0", "frozen-gradient")


@dataclass(frozen=True)
class Peaks:
    """Peak memory beside the model, in MiB; medians over rounds.

    Attributes:
        model: A key of `MODELS`.
        tokens: Length of the text.
        added: By method.
    """

    model: str
    tokens: int
    added: dict[str, float]


def compare(
    tokens: int = 512, batch: int = 1, rounds: int = 5, on_progress: Callable[[str], None] | None = None
) -> Iterator[Peaks]:
    """Measure each model and method, each round in a process of its own.

    Args:
        tokens: Length of the texts.
        batch: Texts at once.
        rounds: Processes for each figure.
        on_progress: Called with what is measured next.

    Raises:
        DataError: If a process fails, for want of memory for example.
    """
    for model in MODELS:
        added: dict[str, list[float]] = {method: [] for method in METHODS}
        for _ in range(rounds):
            for method, values in added.items():
                if on_progress is not None:
                    on_progress(f"{model} {method}")
                job = [model, method, tokens, batch, torch.get_num_threads()]
                command = [sys.executable, "-m", __name__, json.dumps(job)]
                done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | GIVE_BACK)  # noqa: S603
                if done.returncode:
                    lines = done.stderr.strip().splitlines() or [f"exit {done.returncode}"]
                    raise DataError(f"measuring {method} on {model} failed: {lines[-1]}")
                values.append(float(done.stdout.splitlines()[-1]))
        yield Peaks(model, tokens, {method: statistics.median(values) for method, values in added.items()})


def as_table(peaks: list[Peaks]) -> str:
    """Return the measurements in Markdown, a row for each model."""
    lines = [
        "| model, one text of | forward pass | `read_at=0` | `read_at=all` | all / 0 |",
        "|---|---:|---:|---:|---:|",
    ]
    for row in peaks:
        forward, embeddings, layers = (row.added[method] for method in METHODS)
        cells = " | ".join(f"{value:.0f} MiB" for value in (forward, embeddings, layers))
        lines.append(f"| {MODELS[row.model]}, {row.tokens} tokens | {cells} | {layers / embeddings:.3f} |")
    return "\n".join(lines) + "\n"


def _measure(name: str, method: str, tokens: int, batch: int) -> float:
    if name == "bert":
        model, tokenizer = random_bert({}), reference_tokenizer()
    else:
        model, tokenizer = language_model(SMOLLM2)
    explainer = Explainer(model, tokenizer, batch_tokens=batch * tokens)
    vocabulary = model.config.vocab_size

    def work(length: int, count: int) -> None:
        inputs = random_ids(length, vocabulary, count)
        if method == FORWARD:
            with torch.inference_mode():
                model(**inputs)
        else:
            explainer(inputs, method=method)

    work(8, 1)  # the proofs, and what libraries set up once
    with Peak() as peak:
        work(tokens, batch)
    return peak.added / 2**20


def main(arguments: list[str]) -> None:
    """Print the MiB that a call added."""
    *job, threads = json.loads(arguments[0])
    torch.set_num_threads(threads)
    sys.stdout.write(f"{_measure(*job)}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
