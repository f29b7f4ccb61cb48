"""How much likelier each sentence of an answer is after one of its documents alone."""

import numpy as np

from ...copies.memory import enough_memory
from ...errors import InputError
from ...leave_out.outcomes import Progress
from ...pipeline.completions.leave_out import Array
from ...results.units.spans import NamedSpan
from ..measured import DocumentGain
from ..result import Citations
from .cached import CachedAblations
from .prompts import with_heading
from .reading import AnswerReading

MOST_DOCUMENTS = 16
"""Most documents that are read alone: those with the best sources. Each costs itself, the question and the answer."""


@enough_memory("measure the answer after each document alone")
def gains_alone(reading: AnswerReading, cited: Citations, progress: Progress) -> tuple[DocumentGain, ...]:
    """Measure how much likelier each sentence of an answer is after each document alone than after none.

    The other documents are left out with their names, which may say the answer; messages without their roles.

    Args:
        reading: The answer, without its reasoning.
        cited: The answer with the scores of its sources.
        progress: Shows how many texts are read.

    Returns:
        A gain of each document that was read alone, in the order of the prompt; none of a single document, which has
        all that the answer gains, and none where nothing of the prompt is left without its documents.
    """
    documents = _document_spans(reading, cited)
    if len(documents) == 1:
        return ()
    ranked = {document.name for document in cited.top_documents(MOST_DOCUMENTS)}
    alone = np.eye(len(documents), dtype=bool)[[document.name in ranked for document in documents]]  # (N, D)
    present = np.vstack([np.zeros_like(alone[:1]), alone])
    try:
        nats_without, *nats = CachedAblations(reading.text, documents, progress)(present)  # (G,) each
    except InputError:  # the prompt has nothing beside its documents
        return ()
    names = [document.name for document in documents if document.name in ranked]
    gains = [_by_sentence(reading, nats_alone - nats_without) for nats_alone in nats]
    return tuple(map(DocumentGain, names, gains))


def _document_spans(reading: AnswerReading, cited: Citations) -> list[NamedSpan]:
    """Return where each document stands in the prompt, with its name above it; of a message its sources."""
    sequence = reading.text.completed.sequenced()
    documents = []
    for name in cited.document_names:
        spans = [span for span, document in zip(cited.spans, cited.documents, strict=True) if document == name]
        if not cited.messages:
            spans = [(with_heading(cited.text, name, spans[0][0]), spans[-1][1])]
        tokens = [token for span in spans for token in sequence.tokens_in(*span, of_answer=False)]
        documents.append(NamedSpan(name, spans[0][0], spans[-1][1], tuple(tokens)))
    return documents


def _by_sentence(reading: AnswerReading, gains: Array) -> tuple[float, ...]:
    """Return the sums of the gains of tokens, (G,), over each sentence."""
    return tuple(float(gains[sentence.tokens].sum()) for sentence in reading.sentences)
