"""Which other document leads to the one that an answer comes from: the one after which some of its words are likelier.

Of two documents that an answer rests on, the second one is often about what the first one names, and says nothing of
the answer. What it does is to make that name likelier. A document counts by the neighbouring words that gain most from
it, beside the mean of the other documents: all of them make a file name, or the form of a heading, likelier.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from ...copies.memory import enough_memory
from ...inputs.encoding import Encoding
from ...leave_out.outcomes import Outcomes, in_batches
from ...model.task_model import TaskModel
from ...pipeline.completions.completed import Completed
from ...pipeline.completions.leave_out import Array, log_probabilities
from ...results.units.spans import NamedSpan
from ..measured import Lead

NEIGHBOURS = 5
"""Neighbouring tokens whose gains are summed: about as many as a name has."""


@enough_memory("measure what documents make likelier in another one")
def leads_to(
    model: TaskModel, completed: Completed, documents: Sequence[NamedSpan], first: NamedSpan
) -> tuple[Lead, ...]:
    """Measure which words of a document each other one, put before it, makes likelier than the rest of them do.

    Args:
        model: A language model.
        completed: The prompt with the answer.
        documents: The documents to be put before it, two or more, with their tokens in the prompt.
        first: The document whose words are measured, without its first token.
    """
    # What stands before all documents, such as the system message, stays there.
    opening = range(min(token for document in (*documents, first) for token in document.tokens))
    scored = first.tokens[1:]  # the first token is predicted by another document's last one
    if not scored:
        return ()

    def after(tokens: tuple[int, ...]) -> Encoding:
        return completed.encoding.take([*opening, *tokens, *first.tokens])

    def measure(encodings: list[Encoding], _: object) -> list[Array]:
        return log_probabilities(model, encodings, [len(scored)] * len(encodings))

    tokens = [document.tokens for document in documents]
    nats = np.stack(Outcomes(in_batches(model, after, measure))(tokens))  # (D, n)
    means_of_others = (nats.sum(0) - nats) / (len(nats) - 1)
    # Without what is lost: a token that a document makes less likely does not speak against its neighbours.
    return tuple(_leads(completed, documents, scored, np.maximum(nats - means_of_others, 0)))


def _leads(completed: Completed, documents: Sequence[NamedSpan], scored: Sequence[int], gains: Array) -> Iterator[Lead]:
    """Yield the neighbouring words that gain most after each document, by the gains of the scored tokens, (D, n)."""
    sequence = completed.sequenced()
    width = min(NEIGHBOURS, len(scored))
    for document, gain in zip(documents, gains, strict=True):
        sums = np.convolve(gain, np.ones(width), mode="valid")  # (n - width + 1,)
        start = int(sums.argmax())
        offsets = [sequence.offsets[token] for token in scored[start : start + width]]
        yield Lead(document.name, float(sums[start]), sequence.text[offsets[0][0] : offsets[-1][1]].strip())
