"""The swap test: would the model rather read another value of the documents in a sentence of an answer?

A sentence can rest on a document and contradict it. For each value of the sentence the other values of its kind that
stand in the documents take its place, one at a time; where one of these sentences has the higher log-probability, the
reader of the documents would rather have said that.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ...inputs.documents.values import Value, candidates, names_of, values_in
from ...inputs.private_tokenizer import private_tokenizer
from ...model.task_model import TaskModel
from ...results.citation_test import Swap
from ...results.units.spans import NamedSpan
from ..completions.ablations import Array
from ..completions.completed import Completed
from .continuations import Continuation, continuation_log_probabilities

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


def swaps(model: TaskModel, completed: Completed, parts: Sequence[NamedSpan], answer_nats: Array) -> tuple[Swap, ...]:
    """Put other values of the documents in the place of each value of an answer.

    Args:
        model: A language model.
        completed: The prompt and the answer; the named sources are the sentences of the documents.
        parts: The sentences of the answer.
        answer_nats: Log-probability of each token of the answer, (G,).

    Returns:
        For each value that has a candidate the likeliest other one.
    """
    sequence = completed.sequenced()
    sentences = [sequence.text[part.start : part.end] for part in parts]
    texts = {name: sequence.text[start:end] for name, (start, end) in completed.named_sources.items()}
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
    variants = dict.fromkeys(
        (question.sentence, text)
        for question in questions
        for text in (sentences[question.sentence], *_swapped(sentences[question.sentence], question))
    )
    values = _log_probabilities(model, completed, parts, list(variants), token_ids, answer_nats)
    nats = dict(zip(variants, values, strict=True))
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


def _log_probabilities(
    model: TaskModel,
    completed: Completed,
    parts: Sequence[NamedSpan],
    variants: Sequence[tuple[int, str]],
    token_ids: Callable[[str], list[int]],
    answer_nats: Array,
) -> list[float]:
    """Return the log-probability of each variant of a sentence of the answer, given prompt and earlier answer.

    What the model reads before the first of these sentences is read for all of them together.
    """
    if not variants:
        return []
    encoding = completed.encoding
    source_tokens = len(completed.joined().encoding) - len(encoding)  # of an encoder-decoder model
    first = {k: min(parts[k].tokens) - source_tokens for k, _ in variants}
    start = min(first.values())
    continuations = []
    for k, text in variants:
        span = encoding.offsets[first[k]] if encoding.offsets is not None else (0, 0)
        body = (encoding.text or "")[slice(*span)]
        gap = body[: len(body) - len(body.lstrip())]  # the white space that its first token begins with
        continuations.append(Continuation(tuple(encoding.ids[start : first[k]]), tuple(token_ids(gap + text))))
    tokens = continuations[0].all  # the answer up to the end of its first sentence with a value, or another spelling
    is_answer = tokens == encoding.ids[start : start + len(tokens)]
    begins = start + len(continuations[0].prefix) - completed.prompt_tokens
    whole = float(answer_nats[begins : begins + len(continuations[0].ids)].sum()) if is_answer else None
    return continuation_log_probabilities(model, encoding.take(range(start)), continuations, whole)
