"""The sentences of an answer, and how likely the model finds each with its sources and without them."""

import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ...copies.memory import enough_memory
from ...errors import InputError
from ...inputs.encoding import Spans
from ...model.task_model import TaskModel
from ...pipeline.completions.completed import Completed
from ...pipeline.completions.leave_out import Array
from ...pipeline.completions.sources import part_weights, sources_and_parts
from ...pipeline.options import Options
from ...results.units.units import word_groups
from ..measured import Reading, WordReading
from .cached import CachedAblations, CachedText


class AnswerSentence(NamedTuple):
    """A sentence of an answer.

    Attributes:
        start: Its first character in the prompt with the answer, after the number of a list's entry.
        end: One past its last character.
        tokens: Which of the answer's tokens are its own.
        offsets: The characters of each of them in the prompt with the answer.
    """

    start: int
    end: int
    tokens: slice
    offsets: Spans


class AnswerReading:
    """An answer as the model reads it after the whole prompt, and after the prompt without its sources.

    Attributes:
        model: The language model.
        completed: The prompt with the answer; its named sources are the sources.
        sentences: The sentences of the answer, K.
        weights: Which of the G tokens of the answer belong to each sentence, (K, G): 1 for those that do, else 0.
        text: The prompt with the answer, as it is read.
        nats: The log-probability of each token with the sources, (G,).
        nats_without: The same without the sources, (G,); NaN where nothing else is in the prompt.

    Args:
        model: A language model.
        completed: The prompt with the answer; its named sources are the sources.
        options: The method that explains the answer, if one will.
    """

    def __init__(self, model: TaskModel, completed: Completed, options: Options | None = None) -> None:
        self.model, self.completed = model, completed
        self.sentences = answer_sentences(completed)
        sources, parts = sources_and_parts(completed, completed.named_sources, completed.parts)
        self.weights = part_weights(completed, parts)
        present = np.array([[True], [False]]).repeat(len(sources), axis=1)  # (2, S)
        with enough_memory("measure the answer with its sources and without them"):
            self.text = CachedText(model, completed, options)
            try:
                self.nats, self.nats_without = CachedAblations(self.text, sources)(present)  # (G,) each
            except InputError:  # the prompt has nothing beside its sources
                self.nats, self.nats_without = self.text.answer_nats, np.full(self.text.count, np.nan)

    def gains(self) -> Array:
        """Return what the sources gain each token of the answer, and 0 where they lose or that is unknown, (K, G)."""
        return self.weights * np.nan_to_num(np.maximum(self.nats - self.nats_without, 0))

    def readings(self) -> tuple[Reading, ...]:
        """Return the measurements of each sentence, word by word; the number of a list's entry is none."""
        return tuple(Reading(tuple(self._words(sentence))) for sentence in self.sentences)

    def _words(self, sentence: AnswerSentence) -> Iterator[WordReading]:
        text = self.completed.sequenced().text
        nats, nats_without = self.nats[sentence.tokens], self.nats_without[sentence.tokens]  # (n,) each
        tokens = [(i, *offset) for i, offset in enumerate(sentence.offsets) if offset[1] > sentence.start]
        for start, end, own in word_groups(text[: sentence.end], tokens, sentence.start):
            yield WordReading(start, end, text[start:end], float(nats[own].sum()), float(nats_without[own].sum()))


def answer_sentences(completed: Completed) -> list[AnswerSentence]:
    """Return the sentences of an answer.

    Args:
        completed: The prompt with the answer.
    """
    sequence, sentences = completed.sequenced(), []
    shift = completed.joined().prompt_tokens
    entry_ends = _entry_ends(sequence.text, sequence.prompt_characters)
    for part in completed.answer_parts(completed.parts):
        first, last = min(part.tokens), max(part.tokens) + 1
        offsets = tuple(sequence.offsets[first:last])
        start = entry_ends.get(part.start, part.start)
        sentences.append(AnswerSentence(start, part.end, slice(first - shift, last - shift), offsets))
    return sentences


def _entry_ends(text: str, start: int) -> dict[int, int]:
    """Return the end of the number of each entry of a list behind a character, by where it begins: 1, 2, 3, ..."""
    ends, number = dict[int, int](), 0
    for entry in _ENTRY.finditer(text[start:]):
        if int(entry["number"]) in (1, number + 1):
            number, ends[start + entry.start("mark")] = int(entry["number"]), start + entry.end("mark")
    return ends


_ENTRY = re.compile(r"^[^\S\n]*(?P<mark>\(?(?P<number>\d{1,3})[.)])(?=\s)", re.MULTILINE)
