"""How much likelier a sentence makes a passage of the sources: the reader, asked the other way round.

A sentence that comes from a passage foretells it: the model is told the sentence, and reads the passage. What the
passage gains over a reading without the sentence tells whether the sentence is from there.

A source is divided into passages of equal length, each of whole sentences. Of each sentence only the passage with
most of its words is read, so that the price is one short pass for each sentence, and one for each passage.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ...copies.memory import enough_memory
from ...inputs.chat import has_chat_template
from ...inputs.encoder import private_tokenizer
from ...inputs.encoding import Encoding
from ...leave_out.outcomes import Outcomes, in_batches
from ...model.task_model import TaskModel
from ...pipeline.completions.completed import Completed
from ...pipeline.completions.completed_prompts import read_completion
from ...pipeline.completions.leave_out import Array, log_probabilities
from ...text.boundaries import sentence_spans, word_spans
from ...text.characters import Span
from ..facts import ComparedText
from ..ranking import share_of_words

PASSAGE_TOKENS = 128
"""Tokens of the longest passages, about: they end with a sentence."""

WINDOW = 25
"""Tokens over which a passage's gain is averaged."""

WITHOUT = "Write a text."
"""What the model is asked before it reads a passage by itself."""

WITH = "A fact: {sentence}\nWrite a text that contains it."
"""What it is asked before it reads a passage after a sentence."""


def passages_of(model: TaskModel, sources: Sequence[str]) -> list[str]:
    """Divide the texts of sources into passages; each sentence is in exactly one.

    Args:
        model: The model, whose tokens are counted.
        sources: The texts, such as whole documents.
    """
    passages: list[str] = []
    for text in sources:
        pieces = list(_pieces(model, text))
        runs = _runs([piece.tokens for piece in pieces])
        passages += [text[pieces[first].start : pieces[last - 1].end] for first, last in runs]
    return passages


class Piece(NamedTuple):
    """A sentence of a source, or a part of a very long one."""

    start: int  # its first character in the source
    end: int  # one past its last character
    tokens: int  # how many it has, about


def _pieces(model: TaskModel, text: str) -> Iterator[Piece]:
    """Yield the sentences of a text; one that is longer than a passage in parts of equally many words."""
    tokenizer = private_tokenizer(model.tokenizer)
    for start, end in sentence_spans(text):
        # `verbose` would warn of a sentence that is longer than the model reads: it is divided here.
        count = len(tokenizer(text[start:end], add_special_tokens=False, verbose=False)["input_ids"])
        parts, words = math.ceil(count / PASSAGE_TOKENS), word_spans(text, start, end)
        for part in range(parts):
            first, last = part * len(words) // parts, (part + 1) * len(words) // parts
            if first < last:  # a sentence may have fewer words than parts
                yield Piece(words[first][0], words[last - 1][1], count // parts)


def _runs(counts: Sequence[int]) -> Iterator[Span]:
    """Yield first and last (exclusive) of runs of sentences, by their numbers of tokens; all runs are about as long."""
    ends = np.cumsum(counts)  # (S,)
    total = int(ends[-1]) if len(ends) else 0
    parts, first = math.ceil(total / PASSAGE_TOKENS), 0
    for part in range(1, parts + 1):
        last = 1 + int(np.abs(ends - part * total / parts).argmin())  # the end nearest to an equal division
        if last > first:  # a long sentence may be the nearest end twice
            yield first, last
            first = last


@enough_memory("read the passages of the documents after each sentence")
def passage_gains(model: TaskModel, sentences: Sequence[str], sources: Sequence[str]) -> list[float]:
    """Measure how much likelier each sentence makes the passage of the sources that has most of its words.

    It costs one pass over sentence and passage for each sentence, and one over each passage that was chosen.

    Args:
        model: A language model.
        sentences: The sentences of an answer.
        sources: The texts of the sources, such as whole documents.

    Returns:
        For each sentence the largest mean gain of `WINDOW` neighbouring tokens of its passage, in nats a token; 0 where
        the sources hold no sentence.
    """
    passages = passages_of(model, sources)
    if not passages:
        return [0.0] * len(sentences)
    texts = [ComparedText(passage) for passage in passages]
    shares = [[share_of_words(sentence, text) for text in texts] for sentence in sentences]
    nearest = [passages[int(np.argmax(row))] for row in shares]  # of equal ones the first
    return [_largest_gain(gains) for gains in token_gains(model, sentences, nearest)]


def token_gains(model: TaskModel, sentences: Sequence[str], passages: Sequence[str]) -> list[Array]:
    """Measure how much likelier sentences make each token of passages.

    Args:
        model: A language model.
        sentences: Sentences, n.
        passages: A passage for each sentence; one that several have is read once without them.

    Returns:
        For each sentence the gain of each token of its passage, (P,), in nats.
    """
    before = _readings(model, [Task(WITHOUT, passage) for passage in passages])
    pairs = zip(sentences, passages, strict=True)
    after = _readings(model, [Task(WITH.format(sentence=sentence.strip()), passage) for sentence, passage in pairs])
    return [nats_after - nats for nats_after, nats in zip(after, before, strict=True)]


class Task(NamedTuple):
    """A passage that the model writes, and what it was asked for."""

    request: str
    passage: str


def _readings(model: TaskModel, tasks: Sequence[Task]) -> list[Array]:
    """Return the log-probabilities of the tokens of several passages, (P,) each; equal tasks are read once."""
    completed = {task: _completed(model, task) for task in dict.fromkeys(tasks)}

    def encoding_of(task: Task) -> Encoding:
        return completed[task].encoding

    def nats_of(encodings: list[Encoding], group: list[Task]) -> list[Array]:
        return log_probabilities(model, encodings, [len(completed[task].generated_ids) for task in group])

    return Outcomes(in_batches(model, encoding_of, nats_of))(tasks)


def _completed(model: TaskModel, task: Task) -> Completed:
    """Encode a request with the passage as its answer, or one after the other where there is no chat template."""
    if has_chat_template(model.reader):
        return read_completion(model, [{"role": "user", "content": task.request}], task.passage)
    return read_completion(model, task.request + "\n\n", task.passage)


def _largest_gain(gains: Array) -> float:
    """Return the largest mean of neighbouring tokens' gains, (P,)."""
    width = min(WINDOW, len(gains))
    return float(np.convolve(gains, np.full(width, 1 / width), mode="valid").max())
