"""How much likelier each sentence of an answer is after one of its documents alone."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from ...copies.memory import enough_memory
from ...pipeline.completions.leave_out import Array
from ...results.units.spans import NamedSpan
from ..measured import DocumentGain
from ..result import Citations
from .cached import CachedAblations
from .leading import leads_to
from .prompts import with_heading
from .reading import AnswerReading
from .shared_words import SharedWords, shared_words

MOST_DOCUMENTS = 16
"""Most documents that are read alone: those with the best sources. Each costs itself, the question and the answer."""

NO_LEADS_NEEDED = 2
"""Of two documents that were read alone the second one is the other one, whatever leads to the first."""


def document_gains(reading: AnswerReading, cited: Citations) -> Citations:
    """Return an answer with what it gains from each document alone, and which others lead to the best of them.

    Args:
        reading: The answer, without its reasoning.
        cited: The answer with the scores of its sources.
    """
    documents = _document_spans(reading, cited)
    cited = replace(cited, alone=_gains_alone(reading, cited, documents))
    # Messages answer each other; an encoder, if documents are read by one, predicts no token of them.
    if cited.messages or len(cited.alone) <= NO_LEADS_NEEDED or reading.completed.encoding.source is not None:
        return cited
    best = cited.top_documents(1)[0].name
    read = {document.name: document for document in documents if document.name in {gain.name for gain in cited.alone}}
    first, others = read.pop(best), list(read.values())
    return replace(cited, leads=leads_to(reading.model, reading.completed, others, first))


@enough_memory("measure the answer after each document alone")
def _gains_alone(reading: AnswerReading, cited: Citations, documents: Sequence[NamedSpan]) -> tuple[DocumentGain, ...]:
    """Measure how much likelier each sentence of an answer is after each document alone than without any of them.

    Documents are left out with their names, which may say the answer.

    Returns:
        A gain of each document that was read alone, in the order of the prompt; none of a single document, which has
        all that the answer gains, and none where nothing of the prompt is left without its documents.
    """
    if len(documents) == 1 or np.isnan(reading.nats_without).any():  # NaN of all tokens alike
        return ()
    first = {document.name for document in cited.top_documents(MOST_DOCUMENTS)}  # by their sources: none was read yet
    places = [place for place, document in enumerate(documents) if document.name in first]
    only_one = np.eye(len(documents), dtype=bool)[places]  # (N, D)
    none = np.zeros((1, len(documents)), bool)
    # Messages have no names that are left out with them: without all of them the answer was read already.
    known = {(False,) * len(documents): reading.nats_without} if cited.messages else None
    nats = CachedAblations(reading.text, documents, known=known)(np.concatenate([none, only_one]))  # (1 + N, G)
    gains = nats[1:] - nats[0]  # (N, G)
    shared = _shared_words(cited, documents)
    return tuple(
        DocumentGain(documents[place].name, _by_sentence(reading, gain), shared[place].words, shared[place].nats)
        for place, gain in zip(places, gains, strict=True)
    )


def _shared_words(cited: Citations, documents: Sequence[NamedSpan]) -> list[SharedWords]:
    """Return the words that each document shares with question and answer; of messages none: they answer each other."""
    if cited.messages:
        return [SharedWords()] * len(documents)
    asked = f"{cited.question}\n{cited.attribution.completion}"
    return shared_words(asked, [cited.text[document.start : document.end] for document in documents])


def _document_spans(reading: AnswerReading, cited: Citations) -> list[NamedSpan]:
    """Return where each document stands, from its name to that of the next one; of a message its sources."""
    spans_of = cited.document_spans
    if not cited.messages:
        starts = [with_heading(cited.text, name, spans[0][0]) for name, spans in spans_of.items()]
        # The last document ends where the text behind its last sentence begins, such as the question.
        following = cited.text[cited.spans[-1][1] :].lstrip()
        edges = pairwise([*starts, len(cited.text) - len(following)])
        spans_of = {name: [span] for name, span in zip(spans_of, edges, strict=True)}
    sequence = reading.completed.sequenced()
    documents = []
    for name, spans in spans_of.items():
        tokens = tuple(token for span in spans for token in sequence.tokens_in(*span, of_answer=False))
        documents.append(NamedSpan(name, spans[0][0], spans[-1][1], tokens))
    return documents


def _by_sentence(reading: AnswerReading, gains: Array) -> tuple[float, ...]:
    """Return the sums of the gains of tokens, (G,), over each sentence."""
    return tuple(float(gains[reading.tokens_of(sentence)].sum()) for sentence in reading.sentences)
