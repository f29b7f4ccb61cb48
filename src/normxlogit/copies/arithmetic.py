"""Norms of hidden states, and what is computed of logits of which a head may exclude some."""

import torch
from torch import Tensor

EXCLUDED = 1e4
"""Logits below minus this are excluded outputs; some question-answering heads exclude the question's tokens so."""


def finite_or_excluded(values: Tensor) -> bool:
    """Return whether values are finite, but for outputs that a head excludes with -inf, which may not be all.

    Args:
        values: Logits or hidden states of any shape.
    """
    if bool(values.sum(dtype=torch.float32).isfinite()):  # one pass over the values where nothing is wrong
        return True
    # The sum is also not finite where it overflows, or an output is excluded: now each value is looked at.
    is_broken = bool((values.isnan() | values.isposinf()).any())
    return not is_broken and not bool(values.isneginf().all())


def l2_norms(vectors: Tensor) -> Tensor:
    """Return the L2 norms of vectors (..., H) in float32, computed in at least that without a copy: (...)."""
    norms: Tensor = torch.linalg.vector_norm(vectors, dim=-1, dtype=torch.promote_types(vectors.dtype, torch.float32))
    return norms.float()


def mean_logit(logits: Tensor) -> Tensor:
    """Return the mean of logits over the vocabulary, (..., 1), without the entries that a head excludes."""
    included = logits > -EXCLUDED
    if logits.device.type == "cpu" and bool(included.all()):  # to ask an accelerator would cost more
        return logits.mean(-1, keepdim=True)
    # Where all are excluded their plain mean is taken: there would be nothing to divide by.
    included = included | ~included.any(-1, keepdim=True)
    return logits.masked_fill(~included, 0).sum(-1, keepdim=True) / included.sum(-1, keepdim=True)


def log_normaliser(logits: Tensor) -> Tensor:
    """Return log sum_u exp(v_u), which log-probabilities subtract from logits: affine in the logits, at their value.

    With p = softmax(v), log sum_u exp(v_u) = sum_u p_u v_u + H(p), H the entropy. Where gradients are on, p and H(p)
    are constants of the graph: the value is exact at these logits, and so is the gradient, p, also where a frozen
    backward pass would give a logarithm none.

    Args:
        logits: v, (..., V); -inf for entries that a head excludes.

    Returns:
        (..., 1), in the precision of the logits.
    """
    normaliser = logits.detach().logsumexp(-1, keepdim=True)  # (..., 1)
    if not logits.requires_grad:
        return normaliser
    probabilities = (logits.detach() - normaliser).exp()  # (..., V)
    # Of an excluded entry the product would be 0 times infinity, which is NaN.
    expected = (probabilities * logits.masked_fill(probabilities == 0, 0)).sum(-1, keepdim=True)  # (..., 1)
    entropy = normaliser - expected.detach()  # (..., 1)
    return expected + entropy
