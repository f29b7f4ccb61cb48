"""The words that documents share with a question and its answer, which need no model.

A word that few of the documents have says which of them is meant. Its information is its inverse document frequency
(Spärck Jones, 1972): of a word in n of D documents log(D / n), in nats as what a model finds likelier.
"""

import math
from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

from ...results.storage.schema import Strings
from ...text.boundaries import word_spans
from ..written_forms import folded


class SharedWords(NamedTuple):
    """The words that a document shares with a question and its answer.

    Attributes:
        words: Those that not all documents have, as they are written there, the rarest first.
        nats: Their information in all.
    """

    words: Strings = ()
    nats: float = 0.0


def shared_words(asked: str, documents: Sequence[str]) -> list[SharedWords]:
    """Return the words that each document shares with a text.

    Args:
        asked: The text: a question with its answer.
        documents: The texts of all documents, with their names.
    """
    asked_words = _words_of(asked)
    words_of_documents = [_words_of(document) for document in documents]
    nats = _information(words_of_documents)
    rarest_first = sorted(nats.keys() & asked_words.keys(), key=lambda word: (-nats[word], word))
    shared = []
    for words in words_of_documents:
        in_document = [word for word in rarest_first if word in words]
        written = tuple(asked_words[word] for word in in_document)
        shared.append(SharedWords(written, sum(nats[word] for word in in_document)))
    return shared


def _information(words_of_documents: Sequence[Collection[str]]) -> dict[str, float]:
    """Return the information of each word that not all documents have, in nats."""
    count = len(words_of_documents)
    counts = Counter(word for words in words_of_documents for word in words)
    return {word: math.log(count / number) for word, number in counts.items() if number < count}


def _words_of(text: str) -> dict[str, str]:
    """Return the words of a text as they are written where they first stand, by the forms that are compared."""
    spans = reversed(word_spans(text))  # of words with one form the first one is entered last, and stays
    return {folded(text[start:end]): text[start:end] for start, end in spans}
