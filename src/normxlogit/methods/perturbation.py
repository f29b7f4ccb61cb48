"""Perturbation methods, through Captum: occlusion, LIME, KernelSHAP."""

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from ..inputs.encoding import Encoding
from ..models.map_batches import map_batches
from ..models.masking import check_words, masks, remove_tokens
from .base import Method, Request, Scores, imported, remainder
from .registry import LOGITS, register

__all__ = ["ENDS", "Coalitions", "KernelShap", "Lime", "Occlusion", "all_subsets", "kernel_weight", "shapley_subsets"]

ENDS = 1e6
"""Weight of the whole text and the empty one in KernelSHAP, whose true weight is infinite (Captum's value)."""


class Coalitions:
    """The explained quantity as a function of which tokens of a text are there.

    Captum sees presence vectors: a text with M tokens that may be perturbed is M ones. Each distinct coalition of a
    text is asked once.

    Args:
        request: What is explained.

    Raises:
        UnsupportedModelError: If the model reads no tokens that could be taken out.
    """

    def __init__(self, request: Request) -> None:
        check_words(request.model)
        self.model, self.run, self.target = request.model, request.forward, request.target
        self.players = [self._players(row) for row in range(len(self.run.batch.encodings))]
        self._known: dict[tuple[int, tuple[bool, ...]], Tensor] = {}

    def _players(self, row: int) -> list[int]:
        """Return the indices of the tokens of a text that may be perturbed."""
        encoding = self.run.batch.encodings[row]
        asked = self._explained_at(row)
        if self.model.task.name == "causal-lm":  # what comes later cannot matter
            return [i for i, special in enumerate(encoding.special) if not special and i <= asked[0]]
        # A mask that is the question stays; so does a token whose own label is explained, where it would be deleted.
        fixed = asked if self.model.task.name == "masked-lm" or not masks(self.model) else []
        return [i for i, special in enumerate(encoding.special) if not special and i not in fixed]

    def _explained_at(self, row: int) -> list[int]:
        """Return where the explained prediction stands, counted in the text's own tokens."""
        positions = self.run.positions
        if positions is None:
            return []
        mask = self.run.batch.mask[row]
        return [int(mask[:place].sum()) for place in positions[row].flatten().tolist()]

    def __call__(self, presence: Tensor, texts: Tensor) -> Tensor:
        """Ask the model about texts with only some of their tokens.

        Args:
            presence: 1 where a token is there, (N, M); M tokens of each of these texts may be perturbed.
            texts: Which text of the batch each row is, (N,).

        Returns:
            (N, K).
        """
        keys = [(text, tuple(row)) for text, row in zip(texts.tolist(), (presence > 0.5).tolist(), strict=True)]
        new = [key for key in dict.fromkeys(keys) if key not in self._known]
        encodings = [self._without(*key) for key in new]

        def work(places: list[int]) -> Tensor:
            return self._answers([encodings[i] for i in places], [new[i] for i in places]).cpu()  # (B, K)

        self._known.update(zip(new, map_batches(self.model, encodings, work), strict=True))
        return torch.stack([self._known[key] for key in keys])

    def _gone(self, text: int, there: Sequence[bool]) -> list[int]:
        return [place for place, kept in zip(self.players[text], there, strict=True) if not kept]

    def _without(self, text: int, there: Sequence[bool]) -> Encoding:
        return remove_tokens(self.model, self.run.batch.encodings[text], self._gone(text, there))

    def _answers(self, encodings: list[Encoding], keys: list[tuple[int, tuple[bool, ...]]]) -> Tensor:
        batch = self.model.batch(encodings, list(range(len(encodings))))
        device = batch.mask.device
        texts = torch.tensor([text for text, _ in keys], device=device)  # (B,)
        positions = None
        if self.run.positions is not None:
            starts = batch.mask.int().argmax(-1)  # (B,), the padding on the left
            places = torch.tensor([self._moved(*key) for key in keys], device=device)  # (B, 1) or (B, 2)
            positions = (places + starts[:, None]).view(len(keys), *self.run.positions.shape[1:])
        return self.target.measure(self.model, batch.inputs, positions, texts)  # (B, K)

    def _moved(self, text: int, there: Sequence[bool]) -> list[int]:
        """Return where the explained prediction stands once tokens are gone: at the token before, if its own is."""
        asked = self._explained_at(text)
        if masks(self.model):
            return asked
        gone = self._gone(text, there)
        return [max(0, place - sum(g <= place for g in gone)) for place in asked]


class _Perturbation(Method):
    """What the perturbation methods share: presence vectors in, scores of all tokens out."""

    adds_up = False
    """Whether the scores are the difference between the answers at the text and at none of it."""

    def __init__(self) -> None:
        self.captum = imported("captum.attr")  # now, to say that it is missing

    def score(self, request: Request) -> Scores:
        """Score by perturbed texts."""
        ask = Coalitions(request)
        count, mask = request.target.ids.shape[1], request.forward.batch.mask
        scores = torch.zeros(len(mask), count, 1, mask.shape[1], dtype=torch.float32)  # (B, K, 1, T)
        for k in range(count):
            for row, values in enumerate(self.attribute(ask, k)):
                places = mask[row].nonzero()[:, 0].cpu()[ask.players[row]]  # (M,)
                scores[row, k, 0, places] = values.float()
        return Scores(scores, bias=remainder(request, scores) if self.adds_up else None)

    def attribute(self, ask: Coalitions, k: int) -> Iterator[Tensor]:
        """Yield scores for target k of the tokens that may be perturbed, (M,) for each text."""
        raise NotImplementedError


@register("occlusion", needs=LOGITS, paper="Zeiler and Fergus, 2014", signed=True, passes="T forward", extra="eval")
class Occlusion(_Perturbation):
    """What the answer loses when a token is masked, or deleted from an autoregressive model.

    score_i = logit_p(text) - logit_p(text without token i)  (Zeiler and Fergus, 2014; Li et al., 2016, equation 3)

    Args:
        window: How many neighbouring tokens are taken out at a time; a token's score is the mean over its windows.
    """

    def __init__(self, window: int = 1) -> None:
        super().__init__()
        if window < 1:
            raise ValueError("window must be positive")
        self.window = window

    def attribute(self, ask: Coalitions, k: int) -> Iterator[Tensor]:
        """Yield the scores of each text."""
        # Texts with equally many tokens go together: each alone would leave most of the token budget unused.
        method = self.captum.Occlusion(lambda presence, texts: ask(presence, texts)[:, k])
        found: dict[int, Tensor] = {row: torch.zeros(0) for row in range(len(ask.players))}
        for count in sorted({len(players) for players in ask.players} - {0}):
            rows = [row for row, players in enumerate(ask.players) if len(players) == count]
            scores = method.attribute(
                torch.ones(len(rows), count, dtype=torch.float32),  # (N, M)
                sliding_window_shapes=(min(self.window, count),),
                additional_forward_args=(torch.tensor(rows),),
                perturbations_per_eval=count,
            )
            found.update(zip(rows, scores, strict=True))
        return iter(found.values())


class _Fitted:
    """A scikit-learn regressor as Captum's LIME fits it.

    Captum's own wrapper draws from the global random state and fits in float32, where a weight of a million costs
    three digits.
    """

    def __init__(self, regressor: Any) -> None:
        self.regressor = regressor

    def fit(self, train_data: DataLoader[Any], **_: Any) -> None:
        """Fit to presence vectors (N, M), answers (N,) and weights (N,)."""
        presence, answers, weights = (t.double().numpy() for t in train_data.dataset.tensors)  # type: ignore[attr-defined]
        self.regressor.fit(presence, answers, sample_weight=weights)

    def representation(self) -> Tensor:
        """Return the weights of the tokens, (M,)."""
        return torch.as_tensor(self.regressor.coef_)


class _Surrogate(_Perturbation):
    """A linear model of presence, fitted to samples; text by text, each from the same seed."""

    def __init__(self, samples: int, seed: int) -> None:
        super().__init__()
        if samples < 1:
            raise ValueError("samples must be positive")
        self.samples, self.seed = samples, seed

    def attribute(self, ask: Coalitions, k: int) -> Iterator[Tensor]:
        """Yield the scores of each text."""
        for row, players in enumerate(ask.players):
            yield self.fitted(ask, row, k, len(players)) if players else torch.zeros(0)

    def fitted(self, ask: Coalitions, row: int, k: int, count: int) -> Tensor:
        """Return the weights for target k of a text with M tokens to perturb, (M,)."""
        raise NotImplementedError

    def weights(self, ask: Coalitions, row: int, k: int, count: int, samples: int, **parts: Any) -> Tensor:
        """Run Captum's LIME with the given surrogate, kernel and samples, (M,)."""
        method = self.captum.Lime(lambda presence: ask(presence, torch.full((len(presence),), row))[:, k], **parts)
        found: Tensor = method.attribute(
            torch.ones(1, count, dtype=torch.float32),
            n_samples=samples,
            perturbations_per_eval=samples,
            return_input_shape=False,
        )
        return found.flatten()


@register("lime", needs=LOGITS, paper="Ribeiro et al., 2016", signed=True, passes="200 forward", extra="eval")
class Lime(_Surrogate):
    """Weights of a sparse linear model fitted to the answers on randomly perturbed texts.

    Each token is kept with probability one half; samples count by exp(-d^2 / 2), d their cosine distance to the whole
    text; a Lasso is fitted to the logits (Ribeiro et al., 2016, equation 1; Captum's kernel and penalty).

    Args:
        samples: Perturbed texts for each text.
        alpha: Penalty of the Lasso; 0 for plain least squares.
        seed: The same seed gives the same scores, alone or in a batch.
    """

    def __init__(self, samples: int = 200, alpha: float = 0.01, seed: int = 0) -> None:
        super().__init__(samples, seed)
        imported("sklearn.linear_model")  # to say now that it is missing
        if alpha < 0:
            raise ValueError("alpha must not be negative")
        self.alpha = alpha

    def fitted(self, ask: Coalitions, row: int, k: int, count: int) -> Tensor:
        """Fit the weights."""
        models = imported("sklearn.linear_model")
        generator = torch.Generator().manual_seed(self.seed)

        def sample(_: Tensor, **__: Any) -> Tensor:
            return torch.randint(0, 2, (1, count), generator=generator)  # (1, M)

        # A Lasso without a random state takes a number from numpy's global one, and then has no use for it.
        lasso = models.Lasso(alpha=self.alpha, random_state=0)
        surrogate = _Fitted(lasso if self.alpha else models.LinearRegression())
        return self.weights(ask, row, k, count, self.samples, interpretable_model=surrogate, perturb_func=sample)


@register("kernel-shap", needs=LOGITS, paper="Lundberg and Lee, 2017", signed=True, passes="200 forward", extra="eval")
class KernelShap(_Surrogate):
    """Shapley values of the tokens, by a linear model fitted to the answers on subsets of them.

    Subsets of s among M tokens count by (M - 1) / (binomial(M, s) s (M - s)) (Lundberg and Lee, 2017, theorem 2). They
    are drawn with that probability; where there are no more than `samples`, all are taken and the values are exact.

    Args:
        samples: Perturbed texts for each text.
        seed: The same seed gives the same scores, alone or in a batch.
    """

    adds_up = True

    def __init__(self, samples: int = 200, seed: int = 0) -> None:
        super().__init__(samples, seed)
        imported("sklearn.linear_model")  # to say now that it is missing
        if samples < 2:
            raise ValueError("samples must be 2 or more: the whole text and the empty one are always among them")

    def fitted(self, ask: Coalitions, row: int, k: int, count: int) -> Tensor:
        """Fit the weights."""
        if count == 1:  # one player gets all there is
            both = ask(torch.tensor([[1], [0]]), torch.tensor([row, row]))[:, k]  # (2,)
            return both[:1] - both[1:]
        exact = 2**count <= self.samples

        def weight(_: Tensor, __: Tensor, presence: Tensor, **___: Any) -> float:
            return kernel_weight(int(presence.sum()), count, drawn=not exact)

        drawn = all_subsets(count) if exact else shapley_subsets(count, self.seed)
        return self.weights(
            ask,
            row,
            k,
            count,
            2**count if exact else self.samples,
            interpretable_model=_Fitted(imported("sklearn.linear_model").LinearRegression()),
            similarity_func=weight,
            perturb_func=lambda _, **__: next(drawn),
        )


def kernel_weight(size: int, count: int, *, drawn: bool) -> float:
    """Return how much a subset counts in KernelSHAP's fit.

    Args:
        size: How many players are in it.
        count: How many there are.
        drawn: Whether subsets were drawn with their weight as a chance.
    """
    if size in (0, count):
        return ENDS
    return 1.0 if drawn else (count - 1) / (math.comb(count, size) * size * (count - size))


def all_subsets(count: int) -> Iterator[Tensor]:
    """Yield every subset of M tokens, (1, M) each."""
    for subset in itertools.product((1, 0), repeat=count):
        yield torch.tensor([subset])


def shapley_subsets(count: int, seed: int) -> Iterator[Tensor]:
    """Yield the whole, the empty set, then random subsets of M tokens by the Shapley kernel, (1, M) each."""
    yield torch.ones(1, count, dtype=torch.long)
    yield torch.zeros(1, count, dtype=torch.long)
    generator = torch.Generator().manual_seed(seed)
    sizes = torch.arange(1, count)  # (M - 1,)
    chances = 1 / (sizes * (count - sizes))  # (M - 1,), of a size: the binomial of the kernel cancels
    while True:
        size = int(torch.multinomial(chances, 1, generator=generator)) + 1
        subset = torch.zeros(1, count, dtype=torch.long)  # (1, M)
        subset[0, torch.randperm(count, generator=generator)[:size]] = 1
        yield subset
