"""Embedding models: the cosine of a text's vector with another vector is explained."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from ...errors import InputError, UnsupportedModelError
from ...inputs.encoding import Encoding
from ...inputs.texts import read_texts
from ...model.task_model import TaskModel
from ...results.storage.schema import Strings
from ...tasks.base import PositionCount, Task, TokenLimits
from ...tasks.targets import BatchTargets
from ...tasks.task_outputs import Outputs
from ..extension import EMBEDDING, is_sentence_transformer
from .sentence_embedding import SentenceEmbedding, sentence_embedding
from .steps import COSINE, DOCUMENTS, DOT, QUERY, Steps, is_embedding_folder, steps_from_files


class SentenceTransformers:
    """Makes task models of models that embed texts: of a trunk with its pooling, or of a `SentenceTransformer`."""

    def claims_files(self, source: str) -> bool:
        """Return whether the files of sentence-transformers beside a model name a pooling.

        Args:
            source: The name or the folder of the model.
        """
        return is_embedding_folder(source)

    def check_files(self, source: str) -> None:
        """Refuse files of sentence-transformers that say another model than a trunk with its pooling.

        Args:
            source: The name or the folder of the model.
        """
        steps_from_files(source)  # raises the error

    def task_model(self, model: nn.Module, pooling: Any, previous: nn.Module | None) -> nn.Module:
        """Return a trunk with its pooling.

        Args:
            model: The caller's model.
            pooling: How it pools, if the caller says so.
            previous: What was returned for it before; a `SentenceTransformer` is converted anew, as its modules may
                have been changed since.
        """
        if previous is not None and not is_sentence_transformer(model):
            return previous
        return sentence_embedding(model, pooling)


SENTENCE_TRANSFORMERS = SentenceTransformers()
"""What `extension.EMBEDDING` names as the wrapper of its models."""


class Embedding(Task):
    """A model that embeds texts: its head is the pooling and the layers after it."""

    name = EMBEDDING.name
    models = EMBEDDING.models
    outputs = Outputs(outcomes=None)

    @property
    def steps(self) -> Steps:
        """The steps of the model around its trunk."""
        return cast(SentenceEmbedding, self._model).steps

    def limits(self, model: nn.Module, positions: PositionCount) -> TokenLimits:
        """Return the smaller of the limits of tokens that the trunk and the model's files have; see `Task.limits`."""
        limits = positions(model), self.steps.max_length
        return TokenLimits(min((limit for limit in limits if limit is not None), default=None))

    def check_explains_inputs(self, model: TaskModel) -> None:
        """Raise: a vector alone cannot be explained."""
        raise UnsupportedModelError(
            f"{model.name} answers a text with a vector, of which nothing is to be explained by itself; "
            "similarity(a, b) explains the cosine of two texts"
        )

    def items_compared(self, items: Any, prompt_name: str | None = None) -> tuple[list[Any], bool]:
        """Return the texts whose vectors are compared, each behind its prompt, and whether a single one was given."""
        texts, single = read_texts(items)
        if not all(isinstance(text, str) for text in texts):
            raise InputError("similarity compares single texts; a tuple is a pair that is read as one")
        # Without a name it is the prompt that `encode` puts before every text, mostly none.
        prompt = self.steps.prompt if prompt_name is None else self.steps.prompt_named(prompt_name)
        return [f"{prompt}{text}" for text in texts], single

    def comparison_notes(self, lengths: tuple[float, float], *, prompted: bool) -> Strings:
        """Return notes where the model itself compares otherwise, or with prompts that were not read; see `Embeds`.

        Args:
            lengths: The lengths (norms) of the two vectors.
            prompted: Whether the caller has named prompts.
        """
        steps = self.steps
        notes = []
        if steps.similarity == DOT and not steps.normalize:  # of vectors of length 1 it is the cosine
            notes.append(
                "the model compares vectors by the dot product, and the cosine is explained: times "
                f"{lengths[0] * lengths[1]:.6g}, the product of the lengths of the two vectors, it is that"
            )
        elif steps.similarity not in (COSINE, DOT):
            notes.append(f"the model compares vectors by {steps.similarity} distance, and the cosine is explained")
        names = [name for name in (QUERY, *DOCUMENTS) if steps.prompts.get(name)]
        if names and not prompted and not steps.prompt:  # no prompt was read, and the model has some
            notes.append(
                f"the model has prompts for {' and '.join(names)}, which encode does not put before a text, and which "
                'are not read here; prompts=("query", "document") explains encode_query and encode_document'
            )
        return tuple(notes)

    def part_for(self, model: nn.Module, item: Any) -> None:
        """Return None: the whole model embeds every text; see `Embeds`."""

    def encode_each(self, model: TaskModel, items: Sequence[Any]) -> list[Encoding]:
        """Encode texts, in lower case if the model's files say so."""
        return model.encoder([text.lower() for text in items] if self.steps.lower else list(items))


@dataclass(frozen=True)
class Direction(BatchTargets):
    """The target of an embedding: its cosine with other vectors, with the length of its own vector held constant."""

    vectors: Tensor  # the others, (B, K, C), of length 1; those of another length weigh the cosine by it

    @classmethod
    def of(cls, task: Task, vectors: Tensor) -> "Direction":
        """Return the target of each text's cosines with K vectors.

        Args:
            task: The task of the model.
            vectors: The vectors for each of B texts, (B, K, C).
        """
        # Only their number counts: `select` reads `vectors`, and no output has an index here.
        ids = torch.zeros(vectors.shape[:2], dtype=torch.long, device=vectors.device)  # (B, K)
        return cls(ids=ids, contrast=None, positions=None, has_target_axis=True, task=task, vectors=vectors)

    def select(self, logits: Tensor, texts: Tensor | None = None) -> Tensor:
        """Return the cosines with the K vectors, (N, K).

        Args:
            logits: The vectors of N texts, (N, C).
            texts: Which text of the batch each is, (N,); None when N is B.
        """
        vectors = self.vectors if texts is None else self.vectors[texts]  # (N, K, C)
        # Detached, the length counts as a constant for gradients.
        length = logits.detach().norm(dim=-1, keepdim=True).clamp(min=1e-12)  # (N, 1)
        return torch.einsum("nc,nkc->nk", logits / length, vectors.to(logits))  # (N, K)

    def vocabulary_rows(self) -> tuple[Tensor, Any]:
        """Raise, for methods that compute a few outputs of a linear head: a cosine needs the whole vector."""
        raise NotImplementedError
