"""Embedding models: a trunk, and the pooling of its tokens' states to one vector for the text."""

from typing import Any, get_args

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput

from ...copies.clone import clone, unwrapped
from ...copies.precision import full_float32
from ...errors import HeadMismatchError, InputError, UnsupportedModelError, check_choice
from ...parts.proofs import beyond_rounding, proof
from ...tasks.base import Pooling
from ..extension import is_sentence_transformer
from .steps import Steps, steps_from_files, steps_of_modules

MODE_NAMES = {"mean": "mean", "first": "cls", "last": "lasttoken"}
"""Pooling modes by the names that callers pass as `pooling`."""


class SentenceEmbedding(PreTrainedModel):
    """A trunk with its pooling, whose output is the vector of the text before normalisation.

    Args:
        trunk: The caller's encoder.
        steps: What comes before and after it.
    """

    base_model_prefix = "trunk"

    def __init__(self, trunk: PreTrainedModel, steps: Steps) -> None:
        nn.Module.__init__(self)  # that of a pretrained model would write on the trunk's configuration
        self.config = trunk.config
        self.trunk = trunk  # as `base_model_prefix` calls it
        self.steps = steps
        self.dense = nn.ModuleList(steps.dense)
        self.training = trunk.training

    @property
    def task_class(self) -> Any:
        """The task of the model."""
        from .embedding import Embedding

        return Embedding

    def forward(
        self, input_ids: Tensor | None = None, attention_mask: Tensor | None = None, **inputs: Any
    ) -> SequenceClassifierOutput:
        """Embed B texts: the vectors, (B, C), are the logits of the output."""
        output = self.trunk(input_ids=input_ids, attention_mask=attention_mask, **inputs)
        hidden = output.last_hidden_state  # (B, T, H)
        ones = hidden.new_ones(hidden.shape[:2], dtype=torch.long)  # (B, T)
        mask = ones if attention_mask is None else attention_mask
        vector = torch.cat([pool_states(hidden, mask, mode) for mode in self.steps.modes], -1)  # (B, C)
        for layer in self.dense:
            vector = layer(vector)  # (B, C)
        vector = vector[:, : self.steps.width]  # (B, C'), None keeps all
        return SequenceClassifierOutput(logits=vector, hidden_states=output.get("hidden_states"))


def pool_states(hidden: Tensor, attention_mask: Tensor, mode: str) -> Tensor:
    """Pool the hidden states of tokens to one vector for each text, as sentence-transformers does.

    Args:
        hidden: The hidden states, (B, T, H).
        attention_mask: 1 at real tokens, 0 at padding, on either side, (B, T).
        mode: One of the values of `steps.MODES` but "max".

    Returns:
        The vectors, (B, H).
    """
    if mode in ("cls", "lasttoken"):
        return _state_at_end(hidden, attention_mask, last=mode == "lasttoken")
    weights = attention_mask.to(hidden.dtype)  # (B, T)
    if mode == "weightedmean":  # the first real token counts once, the second twice, and so on
        weights = weights * weights.cumsum(-1)
    total = weights.sum(-1, keepdim=True)  # (B, 1)
    if mode == "mean_sqrt_len_tokens":
        total = total.sqrt()
    shares = weights / total.clamp(min=1e-9)  # (B, T); the total is 0 where every token is masked
    return (hidden * shares[..., None]).sum(1)  # (B, H)


def _state_at_end(hidden: Tensor, attention_mask: Tensor, *, last: bool) -> Tensor:
    """Return the hidden state of the first or the last real token of each text, (B, H)."""
    rank = attention_mask.int()  # (B, T), largest at the token that is searched for
    if last:
        rank = rank * torch.arange(rank.shape[1], device=rank.device)
    token_positions = rank.argmax(-1)  # (B,), of several equal ones the first
    return hidden[torch.arange(len(hidden), device=hidden.device), token_positions]


def sentence_embedding(model: nn.Module, pooling: Pooling | None = None) -> SentenceEmbedding:
    """Return an embedding model of a trunk, or of a `SentenceTransformer`.

    Args:
        model: The caller's model.
        pooling: How a trunk pools; None for what the files of sentence-transformers beside it say.

    Raises:
        InputError: If nothing says how it pools.
        UnsupportedModelError: If the model has a head, or steps that are not known.
    """
    if isinstance(model, SentenceEmbedding):
        return model
    check_choice("pooling", pooling, get_args(Pooling))
    if is_sentence_transformer(model):
        return _from_modules(model)
    trunk = unwrapped(model)
    # Output embeddings are the head of a language model.
    if not isinstance(trunk, PreTrainedModel) or trunk.get_output_embeddings() is not None:
        raise UnsupportedModelError(
            f"{type(trunk).__name__} is not a bare encoder; an embedding model is loaded with AutoModel or "
            "sentence-transformers, or by Explainer.from_pretrained(name, task='embedding')"
        )
    if pooling is not None:
        return SentenceEmbedding(trunk, Steps(modes=(MODE_NAMES[pooling],)))
    # Transformers keeps the name or the folder that a model was loaded from in its configuration.
    steps = steps_from_files(str(getattr(trunk.config, "_name_or_path", "")))
    if steps is None:
        raise InputError(
            f"nothing says how the states of {type(trunk).__name__} become one vector: there is no modules.json of "
            "sentence-transformers beside it; pass pooling='mean', 'first' or 'last' as its model card says"
        )
    return SentenceEmbedding(trunk, steps)


def _from_modules(model: nn.Module) -> SentenceEmbedding:
    """Return a `SentenceTransformer` as an embedding model."""
    steps = steps_of_modules(model)
    first_module = next(model.children())
    # The model of transformers in it; newer versions of sentence-transformers call it `model`.
    inner = getattr(first_module, "auto_model", None) or getattr(first_module, "model", None)
    trunk = unwrapped(inner) if isinstance(inner, nn.Module) else None
    if not isinstance(trunk, PreTrainedModel):
        raise UnsupportedModelError("the first module of the SentenceTransformer holds no model of transformers")
    embedding = SentenceEmbedding(trunk, steps)
    vectors_are_the_sentence_transformers(embedding, model)
    return embedding


@proof(
    compares="the vectors of an embedding model taken apart, and of the SentenceTransformer itself",
    tolerance="rounding",
    why="its pooling, dense layers and normalisation are rebuilt from its modules",
    when="loading a SentenceTransformer; two passes over three tokens",
)
@full_float32()
def vectors_are_the_sentence_transformers(embedding: SentenceEmbedding, model: nn.Module) -> None:
    """Check that the vectors equal those of the `SentenceTransformer` itself."""
    ids = torch.tensor([[1, 2, 3], [3, 1, 0]], device=next(embedding.parameters()).device)  # (2, 3)
    mask = torch.tensor([[1, 1, 1], [1, 1, 0]], device=ids.device)  # (2, 3)
    with torch.inference_mode():
        expected = clone(model)({"input_ids": ids, "attention_mask": mask})["sentence_embedding"]  # (2, C)
        rebuilt = clone(embedding)(input_ids=ids, attention_mask=mask).logits  # (2, C)
    expected = expected[:, : embedding.steps.width]  # `encode` cuts it, the modules do not
    if embedding.steps.normalize:  # the forward leaves it to the cosine, and after the cut it is done again
        rebuilt = nn.functional.normalize(rebuilt, dim=-1)
        expected = nn.functional.normalize(expected, dim=-1)
    if (difference := beyond_rounding(rebuilt, expected)) is not None:
        raise HeadMismatchError(
            f"the vectors that are explained differ from those of the SentenceTransformer by {difference:.2g}"
        )
