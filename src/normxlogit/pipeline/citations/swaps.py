"""The swap test: would the model rather read another value of the documents in a sentence of an answer?

A sentence can rest on a document and contradict it. For each value of the sentence the other values of its kind that
stand in the documents take its place, one at a time; where one of these sentences has the higher log-probability, the
reader of the documents would rather have said that.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ...inputs.documents.values import Value, candidates, names_of, values_in
from ...inputs.encoding import Encoding
from ...inputs.private_tokenizer import private_tokenizer
from ...model.task_model import TaskModel
from ...results.citation_test import Swap
from ...results.units.spans import NamedSpan
from ..completions.completed import Completed
from .continuations import continuation_log_probabilities

MOST = 8
"""Most values that take the place of one."""


class Question(NamedTuple):
    """A value of a sentence with what could stand in its place.

    Attributes:
        sentence: Which sentence of the answer it is in.
        value: The value, counted in the sentence.
        others: What takes its place.
    """

    sentence: int
    value: Value
    others: tuple[str, ...]


def swaps(
    model: TaskModel, completed: Completed, parts: Sequence[NamedSpan], sources: Mapping[str, tuple[int, int]]
) -> tuple[Swap, ...]:
    """Put other values of the documents in the place of each value of an answer.

    Args:
        model: A language model.
        completed: The prompt and the answer.
        parts: The sentences of the answer.
        sources: The span of each sentence of the documents in the prompt's text, by name.

    Returns:
        For each value that has a candidate the likeliest other one.
    """
    sequence = completed.sequenced()
    sentences = [sequence.text[part.start : part.end] for part in parts]
    texts = {name: sequence.text[start:end] for name, (start, end) in sources.items()}
    tokenizer = private_tokenizer(model.tokenizer)

    def token_ids(text: str) -> list[int]:
        ids: list[int] = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        return ids

    named = names_of(sequence.text, token_ids)
    source_values = {name: values_in(text, named) for name, text in texts.items()}
    every = [value for values in source_values.values() for value in values]
    questions = [
        Question(k, value, tuple(alternatives[:MOST]))
        for k, sentence in enumerate(sentences)
        for value in values_in(sentence, named)
        if (alternatives := candidates(value, every, sentence))
    ]
    nats: dict[tuple[int, str], float] = {}
    for k in sorted({question.sentence for question in questions}):
        swapped = [text for q in questions if q.sentence == k for text in _swapped(sentences[k], q)]
        variants = list(dict.fromkeys([sentences[k], *swapped]))
        before, gap = _before(completed, parts[k])
        sums = continuation_log_probabilities(model, before, [token_ids(gap + text) for text in variants])
        nats |= {(k, text): value for text, value in zip(variants, sums, strict=True)}
    results = []
    for question in questions:
        sentence = sentences[question.sentence]
        swapped_nats = [nats[question.sentence, text] for text in _swapped(sentence, question)]
        best = int(np.argmax(swapped_nats))
        likeliest = question.others[best]
        names = [n for n, values in source_values.items() if any(v.text.lower() == likeliest.lower() for v in values)]
        start = parts[question.sentence].start + question.value.start
        results.append(
            Swap(
                sentence=question.sentence,
                value=question.value.text,
                start=start,
                end=start + len(question.value.text),
                other=likeliest,
                source=names[0],
                margin=nats[question.sentence, sentence] - swapped_nats[best],
            )
        )
    return tuple(results)


def _swapped(sentence: str, question: Question) -> list[str]:
    value = question.value
    return [sentence[: value.start] + alternative + sentence[value.end :] for alternative in question.others]


def _before(completed: Completed, sentence: NamedSpan) -> tuple[Encoding, str]:
    """Return what the model reads before a sentence of the answer, and the white space that it begins with."""
    encoding = completed.encoding
    source_tokens = len(completed.joined().encoding) - len(encoding)  # of an encoder-decoder model
    first = min(sentence.tokens) - source_tokens
    start, end = encoding.offsets[first] if encoding.offsets is not None else (0, 0)
    body = (encoding.text or "")[start:end]
    return encoding.take(range(first)), body[: len(body) - len(body.lstrip())]
