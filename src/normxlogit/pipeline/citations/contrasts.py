"""Contrasts of an answer's values with other values of the sources: why 30 days, and not 5?

The words of an answer are mostly those of the question and of whatever is written alike; what tells its source is the
value, such as a number or a name. So the sources are scored for the logit of each value's tokens less that of the other
values of its kind in the sources, where the tokens begin to differ. What all values have in common drops out of it.
Values that the question holds as well are no part of the answer to it.
"""

from collections.abc import Sequence

import numpy as np

from ...inputs.documents.values import occurs_in
from ..completions.sources import Contrasts
from .swaps import ReplaceableValue, SwappedValues


def value_contrasts(values: SwappedValues) -> Contrasts | None:
    """Return the contrasts of the sentences of an answer, one for each sentence with such values; None without any.

    Args:
        values: The values of the answer with the others of the sources.
    """
    completed, parts = values.completed, values.parts
    generated = len(completed.encoding) - completed.prompt_tokens
    differences: dict[int, list[tuple[int, int, float]]] = {}  # of a sentence: places, other tokens and weights
    for question in values.questions:
        if occurs_in(question.value.text, values.outside_sources):
            continue
        for place, other in (found := _differences(values, question)):
            differences.setdefault(question.sentence, []).append((place, other, 1 / len(found)))
    if not differences:
        return None
    all_differences = [difference for of_sentence in differences.values() for difference in of_sentence]
    weights = np.zeros((len(differences), generated + len(all_differences)))  # (J, G + C)
    column = generated
    for row, of_sentence in zip(weights, differences.values(), strict=True):
        for place, _, weight in of_sentence:
            row[place] += weight
            row[column] = -weight
            column += 1
    ids, places = [other for _, other, _ in all_differences], [place for place, _, _ in all_differences]
    return Contrasts([parts[k] for k in differences], ids, places, weights)


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
    completed, k = values.completed, question.sentence
    first = values.first_token(k)
    value_ids = completed.encoding.ids[first : first + len(values.parts[k].tokens)]
    again = _shared(
        value_ids, values.sentence_ids(k, values.sentences[k])
    )  # an answer may be in other tokens than its text
    differences = []
    for text in values.swapped(question):
        swapped = values.sentence_ids(k, text)
        place = _shared(value_ids, swapped)
        if place < min(again, len(swapped)):
            differences.append((first + place - completed.prompt_tokens, swapped[place]))
    return differences


def _shared(first: Sequence[int], second: Sequence[int]) -> int:
    """Return the length of the common prefix of two token sequences."""
    return next(
        (i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), min(len(first), len(second))
    )
