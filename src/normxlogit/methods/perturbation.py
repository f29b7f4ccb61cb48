"""Perturbation: leave out parts of the input, run the model, and fit a score for each part to its outputs.

The parts are called players, as in cooperative games. A method is a sampler (`subsets`: which players are present in
each perturbed input) and a regressor (`fit`) on `leave_out`. The simplest of them, occlusion, stands here too.
"""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import compress
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..inputs.batches import Batch
from ..inputs.encoding import Encoding
from ..leave_out.outcomes import Outcomes, in_batches
from ..leave_out.removal import TextRemoval, masks, moved_position, tokens_removed
from ..results.targets import OutputQuantity, Quantity
from ..tasks import Task
from .base import Method, Request, Scores, remainder
from .registry import LOGITS, register

Booleans = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]


class TokenSubsets:
    """The explained quantity of texts, or the log-odds, as a function of which of their tokens are present.

    Args:
        request: What is explained of B texts.
        log_odds: Whether the answers are log-odds of the target's probability.

    Attributes:
        players: The indices of the tokens of each text that may be left out, M of them.
    """

    def __init__(self, request: Request, *, log_odds: bool = False) -> None:
        request.model.task.check_input(request.model, "words")
        self.model = request.model
        self.run = request.forward
        self._log_odds = log_odds
        self.target = replace(request.target, explained="log-probability") if log_odds else request.target
        encodings = self.run.batch.encodings
        position = self.model.task.position
        self.players = [
            position.removable(encoding, self._positions(row), masked=masks(self.model))
            for row, encoding in enumerate(encodings)
        ]
        without = tokens_removed(self.model, encodings)
        self._answers: Outcomes[TextRemoval, Floats] = Outcomes(in_batches(self.model, without, self._read_answers))

    def __call__(self, subsets: Sequence[Booleans]) -> list[Floats]:
        """Return the explained quantity of each text, (N, K), for subsets of its M players, (N, M).

        Args:
            subsets: For each text which of its players are present in each of N perturbed inputs, (N, M).
        """
        removals = (
            TextRemoval(text, tuple(compress(players, ~present)))
            for text, (players, text_subsets) in enumerate(zip(self.players, subsets, strict=True))
            for present in text_subsets
        )
        answers = iter(self._answers(removals))  # (K,) each, text by text
        target_count = self.target.ids.shape[1]
        return [
            np.reshape([next(answers) for _ in text_subsets], (len(text_subsets), target_count))  # also of no subsets
            for text_subsets in subsets
        ]

    def _positions(self, row: int) -> list[int]:
        """Return the positions of the explained prediction, counted in the text's own tokens."""
        if self.run.positions is None:
            return []
        mask = self.run.batch.mask[row]
        return [int(mask[:position].sum()) for position in self.run.positions[row].flatten().tolist()]

    def _read_answers(self, encodings: list[Encoding], removals: list[TextRemoval]) -> Iterable[Floats]:
        """Run the model on perturbed texts, and return the explained quantities of each, (K,)."""
        batch = self.model.batch(encodings)
        texts = torch.tensor([removal.text for removal in removals], device=batch.mask.device)  # (N,)
        values = self.model.measure(self.target, batch.inputs, self._positions_after(removals, batch), texts)
        on_host = values.float().cpu().numpy()  # (N, K)
        self.model.check_finite(on_host, batch)
        answers = on_host.astype(np.float64)  # (N, K)
        return log_odds(answers) if self._log_odds else answers

    def _positions_after(self, removals: list[TextRemoval], batch: Batch) -> Tensor | None:
        """Return where the prediction is read in N perturbed texts, padding included, (N,) or (N, 2); None for whole.

        Args:
            removals: The tokens that each of the texts lacks.
            batch: The texts without these.
        """
        if self.run.positions is None:
            return None
        is_masked = masks(self.model)  # then no token moves
        in_text = [
            [
                moved_position(position, () if is_masked else removal.tokens)
                for position in self._positions(removal.text)
            ]
            for removal in removals
        ]
        starts = batch.mask.int().argmax(-1)  # (N,), after the padding on the left
        positions = torch.tensor(in_text, device=starts.device) + starts[:, None]  # (N, 1) or (N, 2)
        return positions.view(len(removals), *self.run.positions.shape[1:])


class Perturbation(Method):
    """The base of perturbation methods: subsets of the players, and scores fitted to the answers on them."""

    adds_up: ClassVar[bool] = False
    """Whether the scores sum to the difference between the answers to the full and the empty input."""

    log_odds: ClassVar[bool] = False
    """Whether the answers are the log-odds of the target's probability, instead of its logit; where log-probabilities
    are explained, they are these."""

    def fits_log_odds(self, explained: OutputQuantity) -> bool:
        """Return whether the answers are log-odds where the logit, or the log-probability, is explained."""
        return self.log_odds and explained == "logit"

    def quantity_on(self, task: Task, *, contrasted: bool = False, explained: OutputQuantity = "logit") -> Quantity:
        """Return what the method explains: log odds, or what other methods do."""
        if self.fits_log_odds(explained):
            return "log odds"
        return super().quantity_on(task, contrasted=contrasted, explained=explained)

    @abstractmethod
    def subsets(self, players: int) -> Booleans:
        """Return which of M players are present in each of N perturbed inputs, (N, M)."""

    @abstractmethod
    def fit(self, present: Booleans, answers: Floats) -> Floats:
        """Return scores, (K, M), fitted to the answers, (N, K), on perturbed inputs; `present` is of `subsets`.

        Args:
            present: Which players are present in each perturbed input, (N, M).
            answers: The answers to these, (N, K).
        """

    def score(self, request: Request) -> Scores:
        """Score the tokens of texts by leaving some of them out."""
        tokens = TokenSubsets(request, log_odds=self.fits_log_odds(request.target.explained))
        # A text of which nothing may be left out is not perturbed: its scores stay 0.
        subsets = [self.subsets(len(players)) if players else np.zeros((0, 0), bool) for players in tokens.players]
        answers = tokens(subsets)
        mask = request.forward.batch.mask.cpu()
        scores = torch.zeros(*request.target.ids.shape, 1, mask.shape[1], dtype=torch.float32)  # (B, K, 1, T)
        for row, players in enumerate(tokens.players):
            if not players:
                continue
            # Players are counted without padding, and the scores with it.
            tokens_at = mask[row].nonzero()[players, 0].numpy()  # (M,)
            scores[row, :, 0, tokens_at] = torch.from_numpy(self.fit(subsets[row], answers[row])).float()  # (K, M)
        return Scores(scores, bias=remainder(request, scores) if self.adds_up else None)


@register(
    "occlusion",
    title="one word left out at a time",
    needs=LOGITS,
    paper="Zeiler and Fergus, 2014",
    signed=True,
    passes="T forward",
)
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

    def fit(self, present: Booleans, answers: Floats) -> Floats:
        """Return the mean loss over the windows of each player, (K, M).

        Args:
            present: Which players are present, (N, M); in the first of the inputs, which is whole, all of them.
            answers: The answers, (N, K).
        """
        # Each player is in at least one window, so that none is divided by 0.
        absent = ~present[1:]  # (N - 1, M)
        losses = answers[:1] - answers[1:]  # (N - 1, K)
        return losses.T @ absent / absent.sum(0)


def random_subsets(players: int, samples: int, seed: int) -> Booleans:
    """Return random subsets, each player present with probability one half, (samples, M).

    Args:
        players: How many players there are, M.
        samples: How many subsets are drawn.
        seed: The same seed draws the same.
    """
    return np.asarray(np.random.default_rng(seed).random((samples, players)) < 0.5)


def log_odds(log_probability: Floats) -> Floats:
    """Return log p - log(1 - p) of log p."""
    capped = np.minimum(log_probability, -1e-9)  # of p = 1 they would be infinite
    return capped - np.log(-np.expm1(capped))
