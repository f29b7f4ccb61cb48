"""What the spans of a long answer cost: forward passes for each, and memory beside the forward pass with its graph."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from normxlogit import Explainer
from normxlogit.evaluation.report import markdown_table
from paper.costs.peak import Peak

from .processes import measured_apart, run_job
from .random_models import SMOLLM2, language_model, random_texts

__all__ = ["SHAPES", "Span", "as_table", "compare"]

SHAPES: Mapping[str, Mapping[str, Any]] = {
    "small": {**SMOLLM2, "hidden_size": 192, "intermediate_size": 512, "num_hidden_layers": 6,
              "num_attention_heads": 3, "num_key_value_heads": 3, "vocab_size": 30522},
    "smollm2-135m": SMOLLM2,
}  # fmt: skip
"""Configurations of a Llama with random weights."""

GRAPH, LAST, EACH = "forward pass with its graph", "the last sentence", "each sentence"


@dataclass(frozen=True)
class Span:
    """What was computed for a long answer, and what it took.

    Attributes:
        work: What was computed.
        tokens: Tokens of prompt and answer.
        spans: How many spans of the answer were explained.
        backward_passes: Backward passes that this took.
        seconds: Processor time.
        forward_seconds: That of a forward pass without a graph, in the same process.
        gibibytes: The most memory held beside the model.
    """

    work: str
    tokens: int
    spans: int
    backward_passes: int
    seconds: float
    forward_seconds: float
    gibibytes: float


def compare(
    shape: Mapping[str, Any], prompt: int, answer: int, on_progress: Callable[[str], None] | None = None
) -> Iterator[Span]:
    """Explain spans of an answer of random words by the sentences of its prompt.

    Args:
        shape: Configuration of the Llama, its weights random.
        prompt: Tokens of the prompt, about.
        answer: Tokens of the answer, about.
        on_progress: Called with what is measured next.

    Yields:
        Each measured in a process of its own.

    Raises:
        DataError: If a process fails, for want of memory for example.
    """
    for work in (GRAPH, LAST, EACH):
        if on_progress is not None:
            on_progress(work)
        job = {"work": work, "prompt": prompt, "answer": answer, "shape": dict(shape)}
        yield Span(**measured_apart(__name__, job | {"threads": torch.get_num_threads()}, work))


def as_table(rows: list[Span]) -> str:
    """Return the measurements in Markdown."""
    graph = rows[0].gibibytes
    body = []
    for row in rows:
        passes = row.seconds / row.forward_seconds / max(1, row.spans)
        cells = [str(row.spans), str(row.backward_passes), f"{passes:.1f}"] if row.spans else ["", "", ""]
        body.append([row.work, *cells, f"{row.gibibytes:.2f} GiB", f"{row.gibibytes / graph:.2f}"])
    columns = ["of an answer", "spans", "backward passes", "forward passes a span", "memory", "over the graph's"]
    return f"{rows[0].tokens} tokens.\n\n{markdown_table(columns, body)}"


def _sentences(tokenizer: Any, sentences: list[str], tokens: int) -> str:
    """Return the first sentences as a text, until it has so many tokens."""
    text = ""
    for sentence in sentences:
        text += f" {sentence.capitalize()}."
        if len(tokenizer(text, add_special_tokens=False).input_ids) >= tokens:
            break
    return text


def _measure(work: str, prompt: int, answer: int, shape: Mapping[str, Any]) -> Span:
    """Measure what `compare` asks for in this process: the work, the tokens of prompt and answer, and the model."""
    torch.manual_seed(0)
    model, tokenizer = language_model({"max_position_embeddings": 2 * (prompt + answer)} | dict(shape))
    explainer = Explainer(model, tokenizer)
    sentences = random_texts(tokenizer, prompt + answer)
    prompt_text = _sentences(tokenizer, sentences, prompt)
    answer_text = _sentences(tokenizer, sentences[::-1], answer)
    explainer.explain_completion("it is.", " it is.", sources="sentence")  # the proof, and what is set up once
    ids = tokenizer(prompt_text + answer_text, return_tensors="pt", add_special_tokens=False).input_ids  # (1, T)
    with torch.inference_mode():
        start = time.process_time()
        model(ids, logits_to_keep=answer)
        forward_seconds = time.process_time() - start
    spans = backward = 0
    with Peak() as peak:
        start = time.process_time()
        if work == GRAPH:
            model(ids, logits_to_keep=answer)
        else:
            last_sentence = answer_text[:-1].rindex(".") + 2, len(answer_text)  # its span in characters
            parts: Any = "sentence" if work == EACH else last_sentence
            explained = explainer.explain_completion(prompt_text, answer_text, sources="sentence", parts=parts)
            spans, backward = len(explained.targets), int(explained.diagnostics["backward_passes"])
        seconds = time.process_time() - start
    return Span(work, ids.shape[1], spans, backward, seconds, forward_seconds, peak.added / 2**30)


if __name__ == "__main__":
    run_job(_measure, sys.argv[1:])
