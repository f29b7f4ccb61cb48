"""Swaps: the values of an answer with other values of the documents in their place.

A sentence can rest on a document and contradict it. For each value of the sentence the other values of its kind that
stand in the documents take its place, one at a time; where one of these sentences has the higher log-probability, the
reader of the documents would rather have said that.

The same other values tell a value's source: why 30 days, and not 5? The words of an answer are mostly those of the
question and of whatever is written alike. So the sources are scored for the logit of each value's tokens less that of
the other values of its kind, where the tokens begin to differ; what all values have in common drops out of it. Values
that the question holds as well are no part of the answer to it.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ...inputs.documents.values import Value, candidates, names_in, occurs_in, values_in
from ...inputs.encoder import private_tokenizer
from ...model.task_model import TaskModel
from ...results.units.spans import NamedSpan
from ...results.verification import Swap
from ..completions.ablations import Array
from ..completions.completed_prompts import Completed
from ..completions.sources import Contrasts
from .continuations import Continuation, continuation_log_probabilities

MOST = 8
"""Most replacements of a value."""


class ReplaceableValue(NamedTuple):
    """A value of a sentence with what could stand in its place.

    Attributes:
        sentence: Which sentence of the answer it is in.
        value: The value, counted in the sentence.
        others: Its replacements.
    """

    sentence: int
    value: Value
    others: tuple[str, ...]


class SwappedValues:
    """The values of an answer, with values of the sources that could replace them.

    Args:
        model: A language model.
        completed: The prompt and the answer; the named sources are the sentences of the documents.
        parts: The sentences of the answer.

    Attributes:
        parts: The sentences as parts of the answer.
        sentences: Their texts.
        source_values: The values of each source, by its name.
        sentence_values: The values of each sentence.
        questions: The values that have others of their kind in the sources.
    """

    def __init__(self, model: TaskModel, completed: Completed, parts: Sequence[NamedSpan]) -> None:
        sequence = completed.sequenced()
        self.completed, self.parts = completed, parts
        self.sentences = [sequence.text[part.start : part.end] for part in parts]
        self._tokenizer = private_tokenizer(model.tokenizer)
        texts = {name: sequence.text[start:end] for name, (start, end) in completed.named_sources.items()}
        name_words = names_in(sequence.text, self._tokenizer)
        self.source_values = {name: values_in(text, name_words) for name, text in texts.items()}
        all_values = [value for values in self.source_values.values() for value in values]
        self.sentence_values = [values_in(sentence, name_words) for sentence in self.sentences]
        self.questions = [
            ReplaceableValue(k, value, tuple(alternatives[:MOST]))
            for k, sentence in enumerate(self.sentences)
            for value in self.sentence_values[k]
            if (alternatives := candidates(value, all_values, sentence))
        ]

    @cached_property
    def outside_sources(self) -> str:
        """The text of the prompt outside its sources: the question, and the words of the template."""
        sequence, spans = self.completed.sequenced(), self.completed.named_sources.values()
        of_sources = {token for span in spans for token in sequence.tokens_in(*span, of_answer=False)}
        text, position = "", 0
        for token, (start, end) in enumerate(sequence.offsets[: sequence.prompt_tokens]):
            if token not in of_sources:
                text += sequence.text[start:end] if start == position else f" {sequence.text[start:end]}"
                position = end
        return text

    def token_ids(self, text: str) -> list[int]:
        """Return the tokens of a text."""
        ids: list[int] = self._tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        return ids

    def swapped(self, question: ReplaceableValue) -> list[str]:
        """Return the sentence of a value with each replacement of the value."""
        sentence, value = self.sentences[question.sentence], question.value
        return [sentence[: value.start] + alternative + sentence[value.end :] for alternative in question.others]

    def first_token(self, sentence: int) -> int:
        """Return the index of a sentence's first token in the encoding."""
        encoding = self.completed.encoding
        source_tokens = len(self.completed.joined().encoding) - len(encoding)  # of an encoder-decoder model
        return min(self.parts[sentence].tokens) - source_tokens

    def sentence_ids(self, sentence: int, text: str) -> list[int]:
        """Return the token ids of a text that replaces a sentence, with the white space before the sentence."""
        encoding = self.completed.encoding
        span = encoding.offsets[self.first_token(sentence)] if encoding.offsets is not None else (0, 0)
        body = (encoding.text or "")[slice(*span)]
        gap = body[: len(body) - len(body.lstrip())]  # the white space that its first token begins with
        return self.token_ids(gap + text)


def swaps(model: TaskModel, values: SwappedValues, answer_nats: Array) -> tuple[Swap, ...]:
    """Replace each value of an answer by other values of the documents, and compare log-probabilities.

    Args:
        model: A language model.
        values: The values, with the others.
        answer_nats: Log-probability of each token of the answer, (G,).

    Returns:
        For each value that has a candidate the likeliest other one.
    """
    sentences, questions, parts = values.sentences, values.questions, values.parts
    variants = dict.fromkeys(
        (question.sentence, text)
        for question in questions
        for text in (sentences[question.sentence], *values.swapped(question))
    )
    nats = dict(zip(variants, _log_probabilities(model, values, list(variants), answer_nats), strict=True))
    results = []
    for question in questions:
        sentence = sentences[question.sentence]
        swapped_nats = [nats[question.sentence, text] for text in values.swapped(question)]
        best = int(np.argmax(swapped_nats))
        likeliest = question.others[best]
        sources_with_likeliest = [
            name
            for name, source_values in values.source_values.items()
            if any(value.text.lower() == likeliest.lower() for value in source_values)
        ]
        start = parts[question.sentence].start + question.value.start
        results.append(
            Swap(
                sentence=question.sentence,
                value=question.value.text,
                start=start,
                end=start + len(question.value.text),
                other=likeliest,
                source=sources_with_likeliest[0],
                margin=nats[question.sentence, sentence] - swapped_nats[best],
            )
        )
    return tuple(results)


def _log_probabilities(
    model: TaskModel, values: SwappedValues, variants: Sequence[tuple[int, str]], answer_nats: Array
) -> list[float]:
    """Return the log-probability of each variant of a sentence of the answer, given prompt and earlier answer.

    What the model reads before the first of these sentences is read for all of them together.
    """
    if not variants:
        return []
    completed = values.completed
    encoding = completed.encoding
    first_tokens = {k: values.first_token(k) for k, _ in variants}
    shared_tokens = min(first_tokens.values())
    continuations = [
        Continuation(tuple(encoding.ids[shared_tokens : first_tokens[k]]), tuple(values.sentence_ids(k, text)))
        for k, text in variants
    ]
    # The first variant is a sentence as it is. Unless its text alone has other tokens than the answer, its
    # log-probability is known.
    tokens = continuations[0].all_ids
    is_answer = tokens == encoding.ids[shared_tokens : shared_tokens + len(tokens)]
    sentence_start = shared_tokens + len(continuations[0].prefix) - completed.prompt_tokens
    known_nats = (
        float(answer_nats[sentence_start : sentence_start + len(continuations[0].ids)].sum()) if is_answer else None
    )
    return continuation_log_probabilities(model, encoding.take(range(shared_tokens)), continuations, known_nats)


def value_contrasts(values: SwappedValues) -> Contrasts | None:
    """Return the contrasts of the sentences of an answer, one for each sentence with such values; None without any.

    Args:
        values: The values of the answer with the others of the sources.
    """
    completed, parts = values.completed, values.parts
    answer_tokens = len(completed.encoding) - completed.prompt_tokens
    # By sentence: a token of the answer, another token that could be there, and the weight of this difference.
    differences: dict[int, list[tuple[int, int, float]]] = {}
    for question in values.questions:
        if occurs_in(question.value.text, values.outside_sources):
            continue
        for token, other_id in (differences_of_value := _differences(values, question)):
            differences.setdefault(question.sentence, []).append((token, other_id, 1 / len(differences_of_value)))
    if not differences:
        return None
    all_differences = [
        difference for differences_of_sentence in differences.values() for difference in differences_of_sentence
    ]
    weights = np.zeros((len(differences), answer_tokens + len(all_differences)))  # (J, G + C)
    weight_column = answer_tokens
    for row, differences_of_sentence in zip(weights, differences.values(), strict=True):
        for token, _, weight in differences_of_sentence:
            row[token] += weight
            row[weight_column] = -weight
            weight_column += 1
    ids, tokens = [other_id for _, other_id, _ in all_differences], [token for token, _, _ in all_differences]
    return Contrasts([parts[k] for k in differences], ids, tokens, weights)


def sources_of_values(values: SwappedValues) -> list[list[int]]:
    """Return the places of the sources that hold each value of an answer, of values that the question does not hold."""
    texts = {value.text.lower() for of_sentence in values.sentence_values for value in of_sentence}
    return [
        [
            place
            for place, of_source in enumerate(values.source_values.values())
            if any(value.text.lower() == text for value in of_source)
        ]
        for text in sorted(texts)
        if not occurs_in(text, values.outside_sources)
    ]


def _differences(values: SwappedValues, question: ReplaceableValue) -> list[tuple[int, int]]:
    """Return where a value's tokens first differ from those of each other value, and the other token there.

    Places are counted in the answer.
    """
    completed, sentence = values.completed, question.sentence
    first_token = values.first_token(sentence)
    value_ids = completed.encoding.ids[first_token : first_token + len(values.parts[sentence].tokens)]
    tokens_of_text_alone = _shared(
        value_ids, values.sentence_ids(sentence, values.sentences[sentence])
    )  # an answer may be in other tokens than its text
    differences = []
    for text in values.swapped(question):
        swapped = values.sentence_ids(sentence, text)
        first_difference = _shared(value_ids, swapped)
        if first_difference < min(tokens_of_text_alone, len(swapped)):
            differences.append((first_token + first_difference - completed.prompt_tokens, swapped[first_difference]))
    return differences


def _shared(first: Sequence[int], second: Sequence[int]) -> int:
    """Return the length of the common prefix of two token sequences."""
    return next(
        (i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), min(len(first), len(second))
    )
