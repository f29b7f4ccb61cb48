"""A method: the distance of each token's final hidden state from the mean of all tokens."""

import torch

from normxlogit import Method, Request, Scores, register


@register("distance-to-mean", paper="an example")
class DistanceToMean(Method):
    """How far each token's final hidden state is from the mean of all.

    Args:
        p: Order of the norm.
    """

    def __init__(self, p: float = 2.0) -> None:
        if p <= 0:
            raise ValueError("p must be positive")
        self.p = p

    def score(self, request: Request) -> Scores:
        """Score by the distance."""
        run = request.forward
        mask = run.batch.mask[..., None]  # (B, T, 1), True at real tokens
        mean = (run.hidden * mask).sum(1, keepdim=True) / mask.sum(1, keepdim=True)  # (B, 1, H)
        distance = torch.linalg.vector_norm(run.hidden - mean, self.p, dim=-1)  # (B, T)
        targets = request.target.ids.shape[1]
        return Scores(distance[:, None, None].expand(-1, targets, 1, -1))  # (B, K, 1, T)
