"""How much likelier a sentence makes a passage of the sources: the reader, asked the other way round.

A sentence that comes from a passage foretells it: the model is told the sentence, and reads the passage. What the
passage gains over a reading without the sentence tells whether the sentence is from there, and where.

A source is divided into passages of equal length, each of whole sentences. Of each sentence only the passage with
most of its words is read, so that the price is one short pass for each sentence, and one for each passage.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from ...copies.memory import enough_memory
from ...inputs.chat import has_chat_template
from ...inputs.encoder import private_tokenizer
from ...inputs.encoding import Encoding
from ...leave_out.outcomes import Outcomes, in_batches
from ...model.task_model import TaskModel
from ...pipeline.completions.completed_prompts import Completed, read_completion
from ...pipeline.completions.leave_out import token_log_probabilities
from ...text.boundaries import sentence_spans, word_spans
from ..ranking import content_words, share_there

Array = npt.NDArray[np.float64]

PASSAGE_TOKENS = 128
"""Tokens of the longest passages, about: they end with a sentence."""

WINDOW = 25
"""Tokens over which a passage's gain is averaged."""

WITHOUT = "Write a text."
"""What the model is asked before it reads a passage by itself."""

WITH = "A fact: {sentence}\nWrite a text that contains it."
"""What it is asked before it reads a passage after a sentence."""


class Passage(NamedTuple):
    """A run of whole sentences in one of the sources."""

    source: int  # the index of the source's text
    start: int  # its first character there
    end: int  # one past its last
    text: str


class PassageGain(NamedTuple):
    """What a sentence gains the passage that has most of its words."""

    passage: Passage
    nats: float  # the largest mean gain of `WINDOW` neighbouring tokens, in nats a token
    start: int  # the first character, in the source, of the tokens that gain most
    end: int  # one past the last


def passages_of(model: TaskModel, sources: Sequence[str]) -> list[Passage]:
    """Divide the texts of sources into passages; each sentence is in exactly one.

    Args:
        model: The model, whose tokens are counted.
        sources: The texts, such as whole documents.
    """
    passages: list[Passage] = []
    for source, text in enumerate(sources):
        pieces = list(_pieces(model, text))
        for first, last in _runs([piece.tokens for piece in pieces]):
            start, end = pieces[first].start, pieces[last - 1].end
            passages.append(Passage(source, start, end, text[start:end]))
    return passages


class Piece(NamedTuple):
    """A sentence of a source, or a part of a very long one."""

    start: int
    end: int
    tokens: int


def _pieces(model: TaskModel, text: str) -> Iterator[Piece]:
    """Yield the sentences of a text; one that is longer than a passage in parts of as many words."""
    tokenizer = private_tokenizer(model.tokenizer)
    for start, end in sentence_spans(text):
        count = len(tokenizer(text[start:end], add_special_tokens=False, verbose=False)["input_ids"])
        parts, words = math.ceil(count / PASSAGE_TOKENS), word_spans(text, start, end)
        for part in range(parts):
            first, last = part * len(words) // parts, (part + 1) * len(words) // parts
            if first < last:
                yield Piece(words[first][0], words[last - 1][1], count // parts)


def _runs(counts: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield first and last (exclusive) of runs of sentences, by their numbers of tokens; all runs are about as long."""
    ends = np.cumsum(counts)  # (S,)
    total = int(ends[-1]) if len(ends) else 0
    parts, first = math.ceil(total / PASSAGE_TOKENS), 0
    for part in range(1, parts + 1):
        last = 1 + int(np.abs(ends - part * total / parts).argmin())
        if last > first:
            yield first, last
            first = last


def nearest_passage(sentence: str, passages: Sequence[Passage]) -> Passage:
    """Return the passage that has most of a sentence's long words; of several the first."""
    words = content_words(sentence)
    return max(passages, key=lambda passage: share_there(words, passage.text))


@enough_memory("read the passages of the documents after each sentence")
def passage_gains(model: TaskModel, sentences: Sequence[str], sources: Sequence[str]) -> list[PassageGain | None]:
    """Measure how much likelier each sentence makes the passage of the sources that has most of its words.

    It costs one pass over sentence and passage for each sentence, and one over each passage that was chosen.

    Args:
        model: A language model.
        sentences: The sentences of an answer.
        sources: The texts of the sources, such as whole documents.

    Returns:
        The gain of each sentence; None for all where the sources hold no sentence.
    """
    passages = passages_of(model, sources)
    if not passages:
        return [None] * len(sentences)
    chosen = [nearest_passage(sentence, passages) for sentence in sentences]
    pairs = list(zip(sentences, chosen, strict=True))
    after = [Task(WITH.format(sentence=sentence.strip()), passage.text) for sentence, passage in pairs]
    readings = _readings(model, [Task(WITHOUT, passage.text) for passage in chosen])
    return [_gain(*row) for row in zip(chosen, readings, _readings(model, after), strict=True)]


class Task(NamedTuple):
    """A passage that the model writes, and what it was asked for."""

    request: str
    passage: str


class Reading(NamedTuple):
    """A passage as the model reads it after a request."""

    nats: Array  # log-probabilities of the passage's tokens, (P,)
    offsets: tuple[tuple[int, int], ...]  # their characters in the passage, (P,)


def _readings(model: TaskModel, tasks: Sequence[Task]) -> list[Reading]:
    """Return the readings of several passages; equal tasks are read once."""
    completed = {task: _completed(model, task) for task in dict.fromkeys(tasks)}

    def encoding_of(task: Task) -> Encoding:
        return completed[task].encoding

    def nats_of(encodings: list[Encoding], group: list[Task]) -> Iterator[Array]:
        return _nats(model, encodings, [completed[task].generated_ids for task in group])

    nats = Outcomes(in_batches(model, encoding_of, nats_of))(tasks)
    return [Reading(values, _offsets(completed[task])) for task, values in zip(tasks, nats, strict=True)]


def _completed(model: TaskModel, task: Task) -> Completed:
    """Encode a request with the passage as its answer, or one after the other where there is no chat template."""
    if has_chat_template(model.reader):
        return read_completion(model, [{"role": "user", "content": task.request}], task.passage)
    return read_completion(model, task.request + "\n\n", task.passage)


def _offsets(completed: Completed) -> tuple[tuple[int, int], ...]:
    """Return the characters of the answer's tokens, counted from its beginning."""
    spans = (completed.encoding.offsets or ())[completed.prompt_tokens :]
    first = completed.prompt_characters
    return tuple((max(start - first, 0), end - first) for start, end in spans)


def _nats(model: TaskModel, encodings: list[Encoding], token_ids: Sequence[Sequence[int]]) -> Iterator[Array]:
    """Yield the log-probabilities of the last tokens of some inputs, read as one batch.

    Args:
        model: A language model.
        encodings: The inputs, B of them.
        token_ids: The last tokens of each, which are measured.
    """
    batch = model.batch(encodings, list(range(len(encodings))))
    model.prepare(batch)
    hidden = model.states(batch)  # (B, T, H)
    for states, mask, ids in zip(hidden, batch.mask, token_ids, strict=True):
        predicting = states[mask][-len(ids) - 1 : -1]  # (P, H)
        yield token_log_probabilities(model, predicting, torch.tensor(ids))


def _gain(passage: Passage, reading: Reading, reading_after: Reading) -> PassageGain:
    """Return the largest mean gain of neighbouring tokens, and where they stand."""
    gains = reading_after.nats - reading.nats  # (P,)
    width = min(WINDOW, len(gains))
    means = np.convolve(gains, np.full(width, 1 / width), mode="valid")  # (P - width + 1,)
    first = int(means.argmax())
    start, end = reading.offsets[first][0], reading.offsets[first + width - 1][1]
    return PassageGain(passage, float(means[first]), passage.start + start, passage.start + end)
