"""Swaps: the values of an answer with other values of the documents in their place.

A sentence can rest on a document and contradict it. For each value of the sentence the other values of its kind that
stand in the documents take its place, one at a time; where one of these sentences has the higher log-probability, the
reader of the documents would rather have said that.

The same other values tell a value's source: why 30 days, and not 5? The words of an answer are mostly those of the
question and of whatever is written alike. So the sources are scored for the logit of each value's tokens less that of
the other values of its kind, where the tokens begin to differ; what all values have in common drops out of it. Values
that the question holds as well are no part of the answer to it.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain
from typing import NamedTuple

import numpy as np

from ...inputs.documents.values import Value, names_in, occurs_in, other_values, spellings, values_in
from ...inputs.encoder import private_tokenizer
from ...model.task_model import TaskModel
from ...results.units.spans import NamedSpan
from ...results.verification import Swap
from ..completions.ablations import Array
from ..completions.completed_prompts import Completed
from ..completions.sources import Contrasts
from .continuations import Continuation, continuation_log_probabilities

MOST = 8
"""Most replacements of a value that are measured."""


class ReplaceableValue(NamedTuple):
    """A value of a sentence with what could stand in its place.

    Attributes:
        sentence: Which sentence of the answer it is in.
        value: The value, counted in the sentence.
        spellings: The value as it is written, and as the documents write it.
        others: Its replacements.
    """

    sentence: int
    value: Value
    spellings: tuple[str, ...]
    others: tuple[Value, ...]


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
            ReplaceableValue(k, value, tuple(spellings(value, all_values)), others)
            for k, sentence in enumerate(self.sentences)
            for value in self.sentence_values[k]
            if (others := tuple(other_values(value, all_values, sentence)))
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

    @cached_property
    def _numbers_outside(self) -> set[str]:
        """The numbers outside the sources, in any spelling."""
        return {value.key for value in values_in(self.outside_sources) if value.kind == "number"}

    def is_outside_sources(self, value: Value) -> bool:
        """Return whether the prompt holds a value outside its sources, such as in the question."""
        is_known = value.kind == "number" and value.key in self._numbers_outside
        return is_known or occurs_in(value.text, self.outside_sources)

    def holders(self, value: Value) -> list[int]:
        """Return the places of the sources that hold a value."""
        return self._places_by_key.get((value.kind, value.key), [])

    @cached_property
    def _places_by_key(self) -> dict[tuple[str, str], list[int]]:
        """The places of the sources that hold each value, by its kind and key."""
        places: dict[tuple[str, str], list[int]] = {}
        for place, of_source in enumerate(self.source_values.values()):
            for key in dict.fromkeys((value.kind, value.key) for value in of_source):
                places.setdefault(key, []).append(place)
        return places

    def with_most_likely_sources(self, question: ReplaceableValue, scores: Array) -> ReplaceableValue:
        """Return a value with only `MOST` replacements: those of the sources with the highest scores for its sentence.

        Args:
            question: The value.
            scores: What each source contributes to each sentence, (K, S).
        """
        if len(question.others) <= MOST:
            return question
        of_sentence = scores[question.sentence]  # (S,)
        best = [max(of_sentence[self.holders(other)]) for other in question.others]
        places = np.argsort(-np.array(best), kind="stable")[:MOST]
        return question._replace(others=tuple(question.others[place] for place in sorted(places.tolist())))

    def token_ids(self, text: str) -> list[int]:
        """Return the tokens of a text."""
        ids: list[int] = self._tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        return ids

    def swapped(self, question: ReplaceableValue, texts: Iterable[str]) -> list[str]:
        """Return the sentence of a value with each of several texts in the value's place."""
        sentence, value = self.sentences[question.sentence], question.value
        return [sentence[: value.start] + text + sentence[value.end :] for text in texts]

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


def swaps(model: TaskModel, values: SwappedValues, answer_nats: Array, scores: Array) -> tuple[Swap, ...]:
    """Replace each value of an answer by other values of the documents, and compare log-probabilities.

    Where the documents write the value in another way ("1,000" for "1000", "Anna Berg" for "Berg"), its likeliest
    spelling counts: another value would be likelier for its spelling alone.

    Args:
        model: A language model.
        values: The values, with the others.
        answer_nats: Log-probability of each token of the answer, (G,).
        scores: What each source contributes to each sentence, (K, S).

    Returns:
        For each value that has a candidate the likeliest other one.
    """
    parts, names = values.parts, list(values.source_values)
    questions = [values.with_most_likely_sources(question, scores) for question in values.questions]
    replaced = [
        [values.swapped(question, texts) for texts in (question.spellings, [other.text for other in question.others])]
        for question in questions
    ]  # the sentence with the value, in each spelling, and with each other value
    variants = dict.fromkeys(
        (question.sentence, text)
        for question, texts in zip(questions, replaced, strict=True)
        for text in chain.from_iterable(texts)
    )
    nats = dict(zip(variants, _log_probabilities(model, values, list(variants), answer_nats), strict=True))
    results = []
    for question, texts in zip(questions, replaced, strict=True):
        own_nats, other_nats = ([nats[question.sentence, text] for text in of_kind] for of_kind in texts)
        best = int(np.argmax(other_nats))
        likeliest = question.others[best]
        start = parts[question.sentence].start + question.value.start
        results.append(
            Swap(
                sentence=question.sentence,
                value=question.value.text,
                start=start,
                end=start + len(question.value.text),
                other=likeliest.text,
                source=names[values.holders(likeliest)[0]],
                margin=max(own_nats) - other_nats[best],
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
        if values.is_outside_sources(question.value):
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
    answered = {(value.kind, value.key): value for of_sentence in values.sentence_values for value in of_sentence}
    return [values.holders(answered[key]) for key in sorted(answered) if not values.is_outside_sources(answered[key])]


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
    for text in values.swapped(question, [other.text for other in question.others[:MOST]]):
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
