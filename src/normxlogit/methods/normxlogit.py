"""The paper's own methods: LogAt, the input norm, and their product NormXLogit; and the random baseline."""

from typing import Literal

import torch
from torch import Tensor

from ..inputs.batching import Batch
from ..models.targets import Target
from ..models.task_model import ForwardPass, TaskModel
from .registry import register

__all__ = ["InputNorm", "LogAt", "NormXLogit", "Random"]

NormOf = Literal["embedding_output", "word_embedding"]
PAPER = "NormXLogit (EMNLP 2025)"


def input_norm(model: TaskModel, run: ForwardPass, norm_of: NormOf) -> Tensor:
    """L2 norm of each token's input embedding, (B, T)."""
    embedded = run.embedded  # (B, T, H)
    if norm_of == "word_embedding":
        embedded = model.module.get_input_embeddings()(run.batch.inputs["input_ids"])  # (B, T, H)
    precise = torch.promote_types(embedded.dtype, torch.float32)
    norms: Tensor = torch.linalg.vector_norm(embedded, dim=-1, dtype=precise).float()  # (B, T)
    return norms


def head_logits(model: TaskModel, run: ForwardPass, target: Target, layers: tuple[int, ...]) -> Tensor:
    """The head's answer for the target at every real token: HoT(x_i)[p].

    Returns:
        (N, max(L, 1), K) over the N real tokens of the batch, in the order of `run.batch.mask`.
    """
    texts = run.batch.texts  # (N,)
    rows, target = target.rows() if target.task.vocabulary else (None, target)
    read = []
    for layer in layers or (None,):
        if run.token_logits is not None and layer in (None, model.parts.layers):
            logits = run.token_logits  # (N, C)
        else:
            final = run.hidden if layer is None else model.final(run, layer)  # (B, T, H)
            logits = model.read(final, run.batch, rows)  # (N, C)
        if target.task.kind == "regression":
            # The distance to the model's own output: a value has no sign to read evidence from.
            read.append((logits - run.logits[texts]).abs())  # (N, 1)
        else:
            read.append(target.read(logits, texts))  # (N, K)
    return torch.stack(read, 1)  # (N, L, K)


def _spread(values: Tensor, batch: Batch) -> Tensor:
    """Per-token values (N, L, K) to (B, K, L, T), zero at padding."""
    return batch.spread(values).permute(0, 3, 2, 1)  # (B, K, L, T)


@register("normxlogit", paper=PAPER, per_layer=True, signed=True, tokenwise=True)
class NormXLogit:
    """The head's logit at each token, times the norm of its input embedding.

    score_i = ||x_i^0|| * HoT(x_i^l)[p]  (NormXLogit, EMNLP 2025, section 3)

    Args:
        norm_of: "embedding_output" takes x^0 after positions, types and LayerNorm (`hidden_states[0]`, what the
            authors' code does), "word_embedding" the row of the embedding table (what the paper's text says).
    """

    def __init__(self, norm_of: NormOf = "embedding_output") -> None:
        self.norm_of = _checked(norm_of)

    def __call__(self, model: TaskModel, run: ForwardPass, target: Target, layers: tuple[int, ...]) -> Tensor:
        """See `Method`."""
        logits = head_logits(model, run, target, layers)  # (N, L, K)
        norms = run.batch.real(input_norm(model, run, self.norm_of))  # (N,)
        return _spread(logits * norms[:, None, None].to(logits.device), run.batch)


@register("logat", paper=PAPER, per_layer=True, signed=True, tokenwise=True)
class LogAt:
    """The head's logit at each token: HoT(x_i^l)[p]; for regression its distance to the model's output."""

    def __call__(self, model: TaskModel, run: ForwardPass, target: Target, layers: tuple[int, ...]) -> Tensor:
        """See `Method`."""
        return _spread(head_logits(model, run, target, layers), run.batch)


@register("input-norm", paper=PAPER, needs="an embedding layer", tokenwise=True)
class InputNorm:
    """The L2 norm of each token's input embedding; the same for every target.

    Args:
        norm_of: As for `NormXLogit`.
    """

    def __init__(self, norm_of: NormOf = "embedding_output") -> None:
        self.norm_of = _checked(norm_of)

    def __call__(self, model: TaskModel, run: ForwardPass, target: Target, layers: tuple[int, ...]) -> Tensor:
        """See `Method`."""
        norms = input_norm(model, run, self.norm_of)  # (B, T)
        return norms[:, None, None].expand(-1, target.ids.shape[1], -1, -1)  # (B, K, 1, T)


@register("random", paper="baseline", needs="nothing")
class Random:
    """A seeded random permutation of the tokens, anew for each text.

    Args:
        seed: The same seed gives the same scores for a text of the same length, alone or in a batch.
    """

    def __init__(self, seed: int = 12) -> None:
        self.seed = seed

    def __call__(self, model: TaskModel, run: ForwardPass, target: Target, layers: tuple[int, ...]) -> Tensor:
        """See `Method`."""
        mask = run.batch.mask
        scores = torch.zeros(mask.shape)  # (B, T)
        for row, real in enumerate(mask.cpu()):
            count = int(real.sum())
            order = torch.randperm(count, generator=torch.Generator().manual_seed(self.seed))
            scores[row, real] = order.float() / count
        return scores[:, None, None].expand(-1, target.ids.shape[1], -1, -1)  # (B, K, 1, T)


def _checked(norm_of: str) -> NormOf:
    if norm_of not in ("embedding_output", "word_embedding"):
        raise ValueError(f"norm_of must be 'embedding_output' or 'word_embedding', not {norm_of!r}")
    return norm_of  # type: ignore[return-value]
