"""What an explainer does with embedding models: say which tokens a similarity rests on."""

from collections.abc import Iterable
from typing import overload

from ..errors import InputError, UnsupportedModelError
from ..inputs.texts import read_texts
from ..methods import Method
from ..methods.defaults import named_or_default
from ..models.embedding_model import EmbeddingModel
from ..models.task_model import TaskModel
from ..results.collection import Attributions
from ..results.similarity import Similarity
from .arguments import checked_arguments
from .similarity import explain_similarity

__all__ = ["RetrievalMixin"]


class RetrievalMixin:
    """The part of an explainer that is about embedded texts.

    Attributes:
        model: The model, taken apart.
    """

    model: TaskModel

    @overload
    def similarity(  # type: ignore[overload-overlap]  # a string is one text, not its letters
        self, first: str, second: str, *, method: str | Method | None = ..., matrix: bool = ...
    ) -> Similarity: ...
    @overload
    def similarity(
        self, first: str, second: Iterable[str], *, method: str | Method | None = ..., matrix: bool = ...
    ) -> Attributions[Similarity]: ...

    @checked_arguments
    def similarity(
        self,
        first: str,
        second: str | Iterable[str],
        *,
        method: str | Method | None = None,
        matrix: bool = False,
    ) -> Similarity | Attributions[Similarity]:
        """Explain the cosine of two texts, or of a query with each of many documents.

        With the frozen gradient the scores of either text's tokens and its bias sum to the cosine, from one forward and
        one backward pass through each text.

        Args:
            first: A text, such as a query.
            second: Another, or several such as documents, which are read in batches.
            method: As in `__call__`, by default `frozen-gradient`; perturbation methods take tokens out of one text
                while the other stays.
            matrix: Score pairs of tokens too; frozen gradient only. It takes a backward pass through the first text for
                each dimension of its vector, and through each other text one for each token of the first.

        Returns:
            One result, or a list in the order of the documents.

        Raises:
            InputError: If a text is empty or none is given.
            MethodError: If pairs are asked of another method.
            UnsupportedModelError: If the model is no embedding model, or the method does not work on it.

        Example:
            >>> found = explainer.similarity("Who built the pool?", "It was built by Karl Brenner.")  # doctest: +SKIP
            >>> found.cosine, found.top(3)  # doctest: +SKIP
        """
        if not isinstance(self.model, EmbeddingModel):
            raise UnsupportedModelError(
                f"{self.model.name} is a model for {self.model.task.name}; similarity needs one that embeds texts: "
                "load it with task='embedding', or pass a SentenceTransformer. A reranker, which reads both texts at "
                "once, is a classifier: explain the pair (query, document)"
            )
        texts, single = read_texts(second)
        given = [*read_texts([first])[0], *texts]
        if any(isinstance(text, tuple) for text in given):
            raise InputError("similarity compares single texts; a tuple is a pair that is read as one")
        if not texts:
            raise InputError("there is no text to compare with")
        plain = [text for text in given if isinstance(text, str)]
        chosen = named_or_default(method, "similarity")
        found = explain_similarity(self.model, plain[0], plain[1:], chosen, matrix=matrix)
        return found[0] if single else Attributions(found)
