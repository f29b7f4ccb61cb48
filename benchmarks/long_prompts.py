"""Memory and time of what an answer to a long prompt rests on, beside the same with every operation's input kept."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from normxlogit import Explainer
from normxlogit.evaluation.report import markdown_table
from paper.costs.peak import Peak

from .processes import measured_apart, run_job
from .random_models import SMOLLM2, language_model, random_texts

__all__ = ["Taken", "as_table", "compare"]

EVERYTHING = sys.maxsize
"""Tokens beyond which layers run again, where none should."""

ANSWER = "it is about a number of things"


@dataclass(frozen=True)
class Taken:
    """What one prompt took.

    Attributes:
        tokens: Its length, with the answer.
        kept: Whether everything was kept for the backward pass.
        gibibytes: The most memory held beside the model and what it is used with.
        seconds: Of processor time.
    """

    tokens: int
    kept: bool
    gibibytes: float
    seconds: float


def compare(
    lengths: Sequence[int], shape: Mapping[str, Any] = SMOLLM2, on_progress: Callable[[str], None] | None = None
) -> Iterator[tuple[Taken, Taken]]:
    """Explain the whole answer by the sentences of a prompt, once as it is and once keeping everything.

    Args:
        lengths: Tokens of the prompts, about.
        shape: Configuration of the Llama, its weights random, in bfloat16.
        on_progress: Called with what is measured next.

    Yields:
        Both for each length, each measured in a process of its own.

    Raises:
        DataError: If a process fails, for want of memory for example.
    """
    for length in lengths:
        pairs = []
        for kept in (False, True):
            if on_progress is not None:
                on_progress(f"{length} tokens" + ", keeping everything" * kept)
            job = {"length": length, "kept": kept, "shape": dict(shape), "threads": torch.get_num_threads()}
            pairs.append(Taken(**measured_apart(__name__, job, f"{length} tokens")))
        yield pairs[0], pairs[1]


def as_table(pairs: Sequence[tuple[Taken, Taken]]) -> str:
    """Return the measurements in Markdown, a row for each length."""
    columns = ["tokens", "memory beside the model", "keeping everything", "processor time", "keeping everything"]
    rows = []
    for pair in pairs:  # as it is, and with everything kept
        memory = [f"{taken.gibibytes:.2f} GiB" for taken in pair]
        rows.append([str(pair[0].tokens), *memory, *(f"{taken.seconds:.0f} s" for taken in pair)])
    return markdown_table(columns, rows)


def _measure(length: int, kept: bool, shape: Mapping[str, Any]) -> Taken:
    """Measure one prompt in this process: its tokens, about; whether everything is kept; and the model."""
    # With 1, the same layers run again whatever the length, so that the lengths can be compared with each other.
    batch_tokens = EVERYTHING if kept else 1
    torch.manual_seed(0)
    model, tokenizer = language_model({"max_position_embeddings": 2 * length, "dtype": "bfloat16"} | dict(shape))
    explainer = Explainer(model, tokenizer, batch_tokens=batch_tokens)
    sentences = random_texts(tokenizer, length)
    warm_up = f"{sentences[0]}."  # the proof, and what libraries set up once
    explainer.explain_completion(warm_up, ANSWER, sources="sentence")
    prompt, written_tokens = "", 0
    for sentence in sentences:
        written_tokens += len(tokenizer(f"{sentence}.", add_special_tokens=False).input_ids)
        if written_tokens > length and prompt:
            break
        prompt += f"{sentence}. "
    with Peak() as peak:
        start = time.process_time()
        explainer.explain_completion(prompt, ANSWER, sources="sentence")
        seconds = time.process_time() - start
    return Taken(len(tokenizer(prompt + ANSWER).input_ids), kept, peak.added / 2**30, seconds)


if __name__ == "__main__":
    run_job(_measure, sys.argv[1:])
