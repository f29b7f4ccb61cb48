"""What an answer loses without sources: each of them, or the first ones until no other can come first."""

from collections.abc import Sequence

import numpy as np

from ...pipeline.completions.leave_out import Ablations, Array

MARGIN = 2.0
"""Upper bound of a source's loss in nats, as a multiple of the loss that its score predicts."""

VERIFIED_AT_ONCE = 2
"""Sources that are removed in one batch of a verification."""


def leave_one_out(ablations: Ablations, weights: Array, places: Sequence[int] | None = None) -> Array:
    """Return the loss of each part of the answer without each source, in nats: (K, S).

    d_j = log p(y | all sources) - log p(y | all but source j); a pass for each source and one for all.

    Args:
        ablations: Measures the answer.
        weights: Which tokens are of which part, (K, G).
        places: The sources that are left out, one at a time; None for all S of them.
    """
    count = len(ablations.sources)
    left_out = range(count) if places is None else places
    present = np.concatenate([np.ones((1, count), bool), ~np.eye(count, dtype=bool)[list(left_out)]])
    values = ablations(present) @ weights.T  # (S + 1, K)
    losses: Array = (values[:1] - values[1:]).T
    return losses


def verified(ablations: Ablations, weights: Array, scores: Array) -> dict[int, float]:
    """Measure an answer's loss without its first sources, until no other source can rank first.

    The sources are left out one at a time in the order of their scores, two in a batch. A source that was not measured
    yet is taken to be worth at most `MARGIN` times its score in nats, by the largest number of nats for a unit of score
    that was measured, none if all were negative; where that is less than the most that was measured, no other is.

    Args:
        ablations: Measures the answer.
        weights: Which tokens of the answer count, (G,).
        scores: The scores that rank the sources, (S,).

    Returns:
        What the answer loses without each measured source, in nats, by its place.
    """
    order = [int(i) for i in np.argsort(-scores, kind="stable")]
    lost: dict[int, float] = {}
    while len(lost) < len(order):
        part = order[len(lost) : len(lost) + VERIFIED_AT_ONCE]
        (nats,) = leave_one_out(ablations, weights[None], part)  # (n,)
        lost |= dict(zip(part, nats.tolist(), strict=True))
        rates = [max(nats, 0.0) / scores[source] for source, nats in lost.items() if scores[source] > 0]
        following = float(scores[order[len(lost)]]) if len(lost) < len(order) else 0.0
        if MARGIN * max(rates, default=0.0) * max(following, 0.0) <= max(lost.values()):
            break
    return lost
