"""The sentences of an answer, and how likely the model finds each with its sources and without them."""

import re
from collections.abc import Iterable, Iterator

import numpy as np

from ...copies.memory import enough_memory
from ...errors import InputError
from ...model.task_model import TaskModel
from ...pipeline.completions.completed import Completed
from ...pipeline.completions.leave_out import Array
from ...pipeline.completions.sources import part_weights, sources_and_parts
from ...pipeline.options import Options
from ...results.units.spans import NamedSpan, Sequenced
from ...results.units.units import word_groups
from ...text.characters import Span
from ..measured import Reading, WordReading
from .cached import CachedAblations, CachedText

_ENTRY = re.compile(r"^[^\S\n]*(?P<mark>\(?(?P<number>\d{1,3})[.)])(?=\s)", re.MULTILINE)
"""The number of an entry of a list at the beginning of a line: "1." or "(1)"."""


class AnswerReading:
    """An answer as the model reads it after the whole prompt, and after the prompt without its sources.

    Attributes:
        model: The language model.
        completed: The prompt with the answer; its named sources are the sources.
        sentences: The K sentences of the answer, whose tokens count from the start of `Completed.joined`.
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
        sources, self.sentences = sources_and_parts(completed, completed.named_sources, completed.parts)
        self.weights = part_weights(completed, self.sentences)
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

    def tokens_of(self, sentence: NamedSpan) -> range:
        """Return the places of a sentence's tokens among those of the answer.

        Special tokens between the first one and the last one, such as those of unknown words, are the sentence's too.
        """
        # Joined: of an encoder-decoder model the tokens of a sentence are counted behind those of the source.
        answer_start = self.completed.joined().prompt_tokens
        return range(min(sentence.tokens) - answer_start, max(sentence.tokens) - answer_start + 1)

    def readings(self) -> tuple[Reading, ...]:
        """Return the measurements of each sentence, word by word; the number of a list's entry is none."""
        sequence = self.completed.sequenced()
        spans = [(sentence.start, sentence.end) for sentence in self.sentences]
        bodies = sentence_bodies(sequence.text, sequence.prompt_characters, spans)
        with_tokens = zip(bodies, map(self.tokens_of, self.sentences), strict=True)
        return tuple(Reading(tuple(self._words(sequence, body, tokens))) for body, tokens in with_tokens)

    def _words(self, sequence: Sequenced, span: Span, tokens: Iterable[int]) -> Iterator[WordReading]:
        """Yield the measurements of the words of a part of the answer.

        Args:
            sequence: The prompt with the answer.
            span: The characters of the part.
            tokens: The places of its tokens among those of the answer; those before the span count as no word's.
        """
        start, end = span
        offsets = sequence.offsets[sequence.prompt_tokens :]  # of the answer's tokens
        placed = [(token, *offsets[token]) for token in tokens if offsets[token][1] > start]
        # Without the text behind the sentence, and parted at its start: no word reaches over its ends.
        for first, last, own in word_groups(sequence.text[:end], placed, start):
            nats, nats_without = float(self.nats[own].sum()), float(self.nats_without[own].sum())
            word = sequence.text[first:last]
            yield WordReading(first, last, word, nats=nats, nats_without=nats_without)


def sentence_bodies(text: str, answer_start: int, sentences: Iterable[Span]) -> list[Span]:
    """Return the spans of sentences without the number of a list's entry at their beginning.

    Args:
        text: The prompt with the answer.
        answer_start: The first character of the answer.
        sentences: The spans of its sentences.
    """
    entry_ends = _entry_ends(text, answer_start)
    return [(entry_ends.get(start, start), end) for start, end in sentences]


def _entry_ends(text: str, start: int) -> dict[int, int]:
    """Return the end of the number of each entry of a list behind a character, by where it begins: 1, 2, 3, ..."""
    ends, number = dict[int, int](), 0
    for entry in _ENTRY.finditer(text[start:]):
        if int(entry["number"]) in (1, number + 1):  # another number at a line's beginning is one that is stated
            number, ends[start + entry.start("mark")] = int(entry["number"]), start + entry.end("mark")
    return ends
