"""Verify similarities: the cosine is measured without words or regions of either side."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, cast

from torch import Tensor

from ..inputs.encoding import Encoding
from ..leave_out.outcomes import Answer, Outcomes, in_batches
from ..leave_out.picking import Verify, picked
from ..leave_out.removable import removable
from ..leave_out.removal import TextRemoval, Tokens, tokens_removed
from ..leave_out.search import run_searches
from ..model.task_model import TaskModel
from ..pipeline.progress import VERIFYING
from .result import Similarity
from .sides import Side, Sides, embed_batch


def verified_similarities(sides: Sides, results: Sequence[Similarity], verify: Verify) -> list[Similarity]:
    """Return similarities with the cosine as it is without the words or regions of the highest scores.

    Args:
        sides: The query and the K documents.
        results: The similarity of each document.
        verify: How many words or regions are left out, or which.
    """
    tokens_by_result = [_tokens_of_units(sides.query, document) for document in sides.documents]
    query_vectors = _vectors_without(sides.query_tower, [sides.query])
    document_vectors = _vectors_without(sides.document_tower, sides.documents)

    def removed_tokens(removal: TextRemoval, side: int) -> Tokens:
        """Return which tokens of the query (side 0), or of the document (side 1), are units that are removed."""
        tokens_of_units = tokens_by_result[removal.text]
        removed = [tokens_of_units[unit] for unit in removal.tokens]
        return tuple(removed_token.token for removed_token in removed if removed_token.side == side)

    def cosines_without(removals: list[TextRemoval]) -> list[Answer]:
        """Return the cosine of a document with the query after each removal, of units of their result."""
        queries = query_vectors(TextRemoval(0, removed_tokens(removal, 0)) for removal in removals)
        documents = document_vectors(TextRemoval(removal.text, removed_tokens(removal, 1)) for removal in removals)
        cosines = [float(q.double() @ d.double()) for q, d in zip(queries, documents, strict=True)]
        return [Answer(prediction=None, value=cosine, outcome=None) for cosine in cosines]

    removables = []
    for result in results:
        # There is a vector, and so a cosine, also without any of the words or regions.
        parts = removable(result)._replace(target="the cosine", quantity="cosine", may_be_empty=True)
        removables.append(picked(result, parts, verify))
    return cast(list[Similarity], run_searches(results, removables, cosines_without))


def _vectors_without(model: TaskModel, sides: Sequence[Side]) -> Outcomes[TextRemoval, Tensor]:
    """Return a table of the vector, (C,), of a text or a picture without some of its tokens, each computed once."""

    def measure(encodings: list[Encoding], _: object) -> Iterable[Tensor]:
        """Return the vectors of shortened texts or pictures."""
        return [side.vector for side in embed_batch(model, encodings)]

    without = tokens_removed(model, [side.encoding for side in sides], masked=False)
    # Vectors without a removal were computed before.
    known = {TextRemoval(index, ()): side.vector for index, side in enumerate(sides)}
    return Outcomes(in_batches(model, without, measure), VERIFYING, known)


class _TokenOfUnit(NamedTuple):
    """The token of a query or a document that a unit of their result is."""

    side: int  # 0 for the query, 1 for the document
    token: int  # its index among the tokens of that side


def _tokens_of_units(query: Side, document: Side) -> list[_TokenOfUnit]:
    """Return the token that each unit of a result is; as in a result, a text comes before a picture."""
    encodings = [query.encoding, document.encoding]
    order = sorted((0, 1), key=lambda side: encodings[side].signal is not None)
    return [_TokenOfUnit(side, token) for side in order for token in range(len(encodings[side]))]
