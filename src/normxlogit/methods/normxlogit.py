"""The paper's own methods: LogAt, the input norm, and their product NormXLogit; and the random baseline."""

from typing import Literal

import torch
from torch import Tensor

from ..copies.arithmetic import l2_norms
from ..copies.module_io import tensor_of
from ..errors import UnsupportedModelError
from ..inputs.batches import Batch
from ..parts.embeddings import table_of
from ..tasks import Task
from .base import Method, Request, Scores
from .registry import register

NormOf = Literal["embedding_output", "word_embedding"]
PAPER = "NormXLogit (EMNLP 2025)"


def input_norm(request: Request, norm_of: NormOf) -> Tensor:
    """Return the L2 norm of each token's input embedding, (B, T).

    Args:
        request: What is explained.
        norm_of: Which embedding, see `NormXLogit`.
    """
    embedded = request.forward.embedded  # (B, T, H)
    if norm_of == "word_embedding":
        model = request.model
        model.task.check_input(model, "words")
        table = table_of(model.module)
        looked_up = None if table is None else tensor_of(table(request.forward.batch.inputs["input_ids"]))  # (B, T, H)
        if looked_up is None:
            raise UnsupportedModelError(
                f"{model.class_name} has no table of word embeddings whose rows could be measured; "
                "norm_of=embedding_output, the default, needs none"
            )
        embedded = looked_up
    return l2_norms(embedded)


def target_logits(request: Request) -> Tensor:
    """Return the targets' logits at each of N real tokens as a sequence of its own, HoT(x_i)[p]: (N, max(L, 1), K)."""
    model = request.model
    forward = request.forward
    target = request.target
    texts = forward.batch.texts  # (N,)
    rows = None  # all outputs; of a vocabulary the targets alone, as it has so many
    if target.task.outputs.vocabulary:
        rows, target = target.vocabulary_rows()
    logits_by_layer = []
    for layer in request.layers or (None,):  # None: the final hidden states, with which the model answers
        is_last = layer in (None, model.parts.layers)
        if is_last and forward.token_logits is not None:  # computed with the pass
            logits = forward.token_logits  # (N, C)
        else:
            final = forward.hidden if layer is None else model.layer_as_final(forward, layer)  # (B, T, H)
            logits = model.head_logits(final, forward.batch, rows)  # (N, C)
        if target.task.outputs.kind == "value":
            # Of a regression, the distance to the model's own output: its sign does not say whether it is evidence.
            values = (target.select(logits, texts) - target.select(forward.logits)[texts]).abs()  # (N, K)
        else:
            values = target.select(logits, texts)  # (N, K)
        logits_by_layer.append(values)
    return torch.stack(logits_by_layer, 1)  # (N, L, K)


def _as_scores(values: Tensor, batch: Batch) -> Scores:
    """Return values of the real tokens, (N, L, K), as scores, (B, K, L, T), zero at padding."""
    return Scores(batch.spread(values).permute(0, 3, 2, 1))  # (B, K, L, T)


def _for_each_target(request: Request, values: Tensor) -> Scores:
    """Return values of tokens, (B, T), as scores that are the same for each of K targets, (B, K, 1, T)."""
    return Scores(values[:, None, None].expand(-1, request.target.ids.shape[1], -1, -1))


class _OfNorms(Method):
    """The base of methods that read the norm of each token's input embedding."""

    word_merge = "max"

    def __init__(self, norm_of: NormOf = "embedding_output") -> None:
        self.norm_of: NormOf = norm_of


class _OfLogits(Method):
    """The base of methods that read the head's logits at each token."""

    reads_logits = True
    word_merge = "max"

    def signed_on(self, task: Task) -> bool:
        """Return whether scores have a sign: those of a regression model are distances."""
        return task.outputs.kind != "value"


@register(
    "normxlogit",
    title="the head's logit at each word, times its norm",
    paper=PAPER,
    per_layer=True,
    signed=True,
    tokenwise=True,
)
class NormXLogit(_OfLogits, _OfNorms):
    """The head's logit at each token, times the norm of its input embedding.

    score_i = ||x_i^0|| * HoT(x_i^l)[p]  (NormXLogit, EMNLP 2025, section 3)

    Args:
        norm_of: "embedding_output" takes x^0 after positions, types and LayerNorm (`hidden_states[0]`, what the
            authors' code does), "word_embedding" the row of the embedding table (what the paper's text says).
    """

    def score(self, request: Request) -> Scores:
        """Score by norm times logit."""
        batch = request.forward.batch
        logits = target_logits(request)  # (N, L, K)
        norms = batch.real(input_norm(request, self.norm_of))  # (N,)
        return _as_scores(logits * norms[:, None, None].to(logits.device), batch)


@register("logat", title="the head's logit at each word", paper=PAPER, per_layer=True, signed=True, tokenwise=True)
class LogAt(_OfLogits):
    """The head's logit at each token: HoT(x_i^l)[p]; for regression its distance to the model's output."""

    def score(self, request: Request) -> Scores:
        """Score by the logit."""
        return _as_scores(target_logits(request), request.forward.batch)


@register(
    "input-norm", title="length of each word's embedding", paper=PAPER, needs="an embedding layer", tokenwise=True
)
class InputNorm(_OfNorms):
    """The L2 norm of each token's input embedding; the same for every target.

    Args:
        norm_of: As for `NormXLogit`.
    """

    def score(self, request: Request) -> Scores:
        """Score by the norm."""
        return _for_each_target(request, input_norm(request, self.norm_of))


@register("random", title="random order, to compare with", paper="baseline", needs="nothing")
class Random(Method):
    """A seeded random permutation of the tokens of each text.

    Args:
        seed: The same seed gives the same scores for a text of the same length, alone or in a batch.
    """

    word_merge = "max"

    def __init__(self, seed: int = 12) -> None:
        self.seed = seed

    def compares_answers_on(self, task: Task) -> bool:
        """Return True: a random ranking is one of any answers."""
        return True

    def score(self, request: Request) -> Scores:
        """Score at random."""
        mask = request.forward.batch.mask
        scores = torch.zeros(mask.shape, dtype=torch.float32)  # (B, T)
        for row, real in enumerate(mask.cpu()):
            count = int(real.sum())
            order = torch.randperm(count, generator=torch.Generator().manual_seed(self.seed))
            scores[row, real] = order.float() / count
        return _for_each_target(request, scores)
