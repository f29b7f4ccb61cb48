"""Models that embed texts: the vector, and the cosine with another one as what is explained."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from ..inputs.batching import Batch
from ..inputs.encoding import Encoding
from .model_copy import ModelCopy
from .sentence_embedding import Pooling, SentenceEmbedding, is_sentence_transformer, sentence_embedding
from .targets import Target
from .task_model import TaskModel

__all__ = ["Direction", "EmbeddingModel"]


class EmbeddingModel(TaskModel):
    """An embedding model, taken apart like any other: its head is the pooling with what follows it.

    Args:
        model: A bare model of transformers, or a `SentenceTransformer`, whose steps are read anew when it changes.
        tokenizer: Its tokenizer.
        name: What to call it in results.
        pooling: How to pool, in the place of what the model's files say.
        batch_tokens: Most tokens (padding included) in one forward pass.

    Raises:
        InputError: If nothing says how it pools.
        UnsupportedModelError: If it is no embedding model of a supported kind.
    """

    def __init__(
        self,
        model: nn.Module,
        tokenizer: PreTrainedTokenizerBase,
        name: str | None = None,
        *,
        pooling: Pooling | None = None,
        batch_tokens: int = 8192,
    ) -> None:
        self._source = model
        super().__init__(sentence_embedding(model, pooling), tokenizer, name, batch_tokens=batch_tokens)

    def _copied(self, watched: nn.Module | None = None) -> ModelCopy:
        if is_sentence_transformer(self._source):
            self.given = sentence_embedding(self._source)
        return super()._copied(self._source if watched is None else watched)

    def _limit(self, plain: nn.Module) -> int | None:
        """Return the least of what the trunk and the model's files say."""
        limits = (super()._limit(plain), self._given.steps.max_length)
        return min((limit for limit in limits if limit is not None), default=None)

    @property
    def _given(self) -> SentenceEmbedding:
        return cast(SentenceEmbedding, self.given)

    def read_texts(self, texts: Sequence[str]) -> list[Encoding]:
        """Encode texts as the model's own files say: with its prompt, in lower case."""
        steps = self._given.steps
        read = [steps.prompt + text for text in texts]
        return self.encoder([text.lower() for text in read] if steps.lower else read)

    def embed(self, batch: Batch) -> Tensor:
        """Return the vectors of texts as the model's files describe them, (B, C)."""
        with torch.inference_mode():
            vectors = self.run(batch).logits  # (B, C)
        return torch.nn.functional.normalize(vectors, dim=-1) if self._given.steps.normalize else vectors


@dataclass(frozen=True)
class Direction(Target):
    """What is explained is the cosine with other vectors, the length of the text's own vector held constant.

    Attributes:
        vectors: The others, (B, K, C), of length 1; those of another length weigh the cosine by it.
    """

    vectors: Tensor

    @classmethod
    def of(cls, model: TaskModel, vectors: Tensor) -> "Direction":
        """Make a target of K vectors for each of B texts.

        Args:
            model: The model.
            vectors: (B, K, C).
        """
        ids = torch.zeros(vectors.shape[:2], dtype=torch.long, device=vectors.device)  # (B, K)
        return cls(ids, None, None, True, model.task, vectors)

    def read(self, logits: Tensor, texts: Tensor | None = None) -> Tensor:
        """Return the cosines of vectors with the others.

        Args:
            logits: Vectors, (N, C).
            texts: Which text of the batch each is of, (N,); None when N is B.

        Returns:
            (N, K).
        """
        others = self.vectors if texts is None else self.vectors[texts]  # (N, K, C)
        length = logits.detach().norm(dim=-1, keepdim=True).clamp(min=1e-12)  # (N, 1)
        return torch.einsum("nc,nkc->nk", logits / length, others.to(logits))  # (N, K)

    def rows(self) -> tuple[Tensor, Any]:
        """Refuse: there is no vocabulary."""
        raise NotImplementedError
