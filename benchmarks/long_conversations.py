"""Memory and time of what the last answer of a long conversation with tools rests on, tested and not."""

import json
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from normxlogit import Explainer
from normxlogit.evaluation.report import markdown_table
from normxlogit.grounding.citations.cited_answer import read_answered
from paper.costs.peak import Peak

from .processes import measured_apart, run_job
from .random_models import language_model

__all__ = ["SMALL", "Taken", "as_table", "compare", "conversation"]

SMALL: dict[str, Any] = {
    "vocab_size": 31000,
    "hidden_size": 256,
    "intermediate_size": 688,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "tie_word_embeddings": True,
    "max_position_embeddings": 65536,
}
"""A small Llama that reads as much as large ones do."""

CUSTOMERS = ("Anna Berg", "Boris Maier", "Chiara Conti", "Deniz Aydin", "Emil Olsen", "Fatima Noor", "Greta Lang")
CITIES = ("Bonn", "Graz", "Turin", "Lyon", "Oslo", "Ghent")
CARRIERS = ("Swift", "Arrow", "Comet", "Falcon")
MONTHS = ("May", "June", "July", "August")


@dataclass(frozen=True)
class Taken:
    """What one conversation took.

    Attributes:
        tokens: Its length, with the answer.
        sources: Its sentences and fields before the answer.
        verify: As for `cite`.
        left_out: Sources that were left out one at a time.
        gibibytes: The most memory held beside the model and what it is used with.
        seconds: Of processor time.
    """

    tokens: int
    sources: int
    verify: int | Literal["auto"]
    left_out: int
    gibibytes: float
    seconds: float


def compare(
    lengths: Sequence[int],
    verify: int | Literal["auto"] = "auto",
    *,
    model: str | None = None,
    gguf_file: str | None = None,
    shape: Mapping[str, Any] = SMALL,
    on_progress: Callable[[str], None] | None = None,
) -> Iterator[Taken]:
    """Explain the last answer of a conversation, once without a test and once with.

    Args:
        lengths: Most tokens of the conversations.
        verify: The test, as for `cite`; with 0 there is none.
        model: Folder of a language model; by default one of random weights is made.
        gguf_file: The GGUF file in it.
        shape: Configuration of the Llama of random weights.
        on_progress: Called with what is measured next.

    Yields:
        Each of them, measured in a process of its own.

    Raises:
        DataError: If a process fails, for want of memory for example.
    """
    for length in lengths:
        for test in (0, verify) if verify else (0,):
            if on_progress is not None:
                on_progress(f"{length} tokens, verify={test!r}")
            job = {"length": length, "verify": test, "model": model, "gguf_file": gguf_file, "shape": dict(shape)}
            taken = measured_apart(__name__, job | {"threads": torch.get_num_threads()}, f"{length} tokens")
            yield Taken(**taken)


def as_table(measured: Sequence[Taken]) -> str:
    """Return the measurements in Markdown, a row for each conversation."""
    rows = [
        [
            f"{taken.tokens}",
            f"{taken.sources}",
            f"`verify={json.dumps(taken.verify)}`",
            f"{taken.left_out}",
            f"{taken.gibibytes:.2f} GiB",
            f"{taken.seconds:.0f} s",
        ]
        for taken in measured
    ]
    return markdown_table(["tokens", "sources", "test", "left out", "memory", "processor time"], rows)


def conversation(rounds: int, asked: int | None = None) -> list[dict[str, Any]]:
    """Return a conversation with two tools about orders.

    Args:
        rounds: Orders that are asked for.
        asked: Which of them is asked for again in the end; by default the one in the middle.
    """
    draw = random.Random(0)  # noqa: S311
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You help the customers of a shop."}]
    answers = []
    for call, order in enumerate(draw.sample(range(1000, 99999), rounds)):
        ships, carrier = f"{draw.randint(1, 28)} {draw.choice(MONTHS)}", draw.choice(CARRIERS)
        record = {"order": order, "customer": draw.choice(CUSTOMERS), "city": draw.choice(CITIES), "ships": ships}
        note = f"The parcel of order {order} weighs {draw.randint(1, 30)} kg. It is wrapped as a gift."
        question, answer = f"When does order {order} ship?", f"Order {order} ships on {ships} with {carrier}."
        messages.append({"role": "user", "content": question})
        for tool, result in (("look_up", json.dumps({**record, "carrier": carrier})), ("notes", note)):
            name = f"{tool}_{call}"
            function = {"name": tool, "arguments": json.dumps({"order": order})}
            calls = [{"id": name, "type": "function", "function": function}]
            messages.append({"role": "assistant", "content": None, "tool_calls": calls})
            messages.append({"role": "tool", "tool_call_id": name, "content": result})
        messages.append({"role": "assistant", "content": answer})
        answers.append((question, answer))
    question, answer = answers[rounds // 2 if asked is None else asked]
    return [*messages, {"role": "user", "content": question}, {"role": "assistant", "content": answer}]


def _of_length(explainer: Explainer, length: int) -> tuple[list[dict[str, Any]], int]:
    """Return the longest conversation of at most so many tokens, and its tokens."""

    def tokens(rounds: int) -> int:
        return len(read_answered(explainer.language_model, None, messages=conversation(rounds)).completed.encoding)

    of_one_round, of_five_rounds = tokens(1), tokens(5)
    rounds = max(1, 1 + (length - of_one_round) * 4 // (of_five_rounds - of_one_round))  # by the line through both
    while rounds > 1 and tokens(rounds) > length:
        rounds -= 1
    return conversation(rounds), tokens(rounds)


def _measure(
    length: int,
    verify: int | Literal["auto"],
    model: str | None,
    gguf_file: str | None,
    shape: Mapping[str, Any],
) -> Taken:
    """Measure one conversation in this process; the arguments are those of `compare`."""
    torch.manual_seed(0)
    if model is None:
        explainer = Explainer(*language_model(shape))
    else:
        options: dict[str, Any] = {} if gguf_file is None else {"gguf_file": gguf_file}
        explainer = Explainer.from_pretrained(model, **options)
    explainer.cite(messages=conversation(1), verify=verify)  # the proofs, and what libraries set up once
    messages, tokens = _of_length(explainer, length)
    with Peak() as peak:
        start = time.process_time()
        cited = explainer.cite(messages=messages, verify=verify)
        seconds = time.process_time() - start
    return Taken(tokens, len(cited.sources), verify, len(cited.losses), peak.added / 2**30, seconds)


if __name__ == "__main__":
    run_job(_measure, sys.argv[1:])
