"""Occlusion: the decrease of the logit without a token, or without a source."""

import numpy as np

from .perturbation import Booleans, Fit, Floats, Perturbation
from .registry import LOGITS, register


@register("occlusion", needs=LOGITS, paper="Zeiler and Fergus, 2014", signed=True, passes="T forward")
class Occlusion(Perturbation):
    """The decrease of the logit when a token is masked, or deleted from an autoregressive model's input.

    score_i = logit_p(text) - logit_p(text without token i)  (Zeiler and Fergus, 2014; Li et al., 2016, equation 3)

    Args:
        window: How many neighbouring tokens are left out at a time; a token's score is the mean over its windows.
    """

    def __init__(self, window: int = 1) -> None:
        if window < 1:
            raise ValueError("window must be positive")
        self.window = window

    def subsets(self, players: int) -> Booleans:
        """Return the whole input, then the input without each window, (1 + M - window + 1, M)."""
        window = min(self.window, players)
        starts = np.arange(players - window + 1)[:, None]  # (N - 1, 1)
        outside = (np.arange(players) < starts) | (np.arange(players) >= starts + window)  # (N - 1, M)
        return np.concatenate([np.ones((1, players), bool), outside])

    def fit(self, present: Booleans, answers: Floats, prior: Floats | None) -> Fit:
        """Return the mean loss over the windows of each player."""
        absent = ~present[1:]  # (N - 1, M)
        return Fit((answers[:1] - answers[1:]).T @ absent / absent.sum(0))
