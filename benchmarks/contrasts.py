"""What is explained of a next token, and where: contrasts with what the last tokens alone predict, by two measures.

The default explains the logit minus its mean over the vocabulary. Without the text before, the model already predicts
something from its last two tokens; the contrast with that asks what the text adds. Contributions can be counted from
the model's mean state, too. Words that a person names and leave-one-out judge each of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from normxlogit.evaluation.report import markdown_table
from normxlogit.evaluation.runs import OnProgress, with_progress
from normxlogit.evaluation.statistics import interval_text, mean_interval
from normxlogit.explainer import Explainer
from normxlogit.frozen.contributions import backpropagated
from normxlogit.frozen.frozen_model import FrozenModel
from normxlogit.frozen.places import Place, Reading, Side
from normxlogit.inputs.encoding import Encoding

from .named_words import FIRST, NamedPrompt, named_among

Array = npt.NDArray[np.float64]

SINK_THRESHOLD = 10.0
"""That of the default method."""

LEAST = 6
"""Tokens of a text that the mean state is taken over."""

PLACES: Mapping[str, tuple[float, float]] = {"first half": (0, 0.5), "middle": (0.5, 0.5), "middle half": (0.25, 0.75)}
"""Between which shares of the layers contributions are read; their mean is taken."""

DEFAULT = ("logit minus its mean", "first half", False)
"""What the default method explains and where, and that it counts from zero."""


@dataclass(frozen=True)
class Explained:
    """The contributions of the T tokens of a prompt to K quantities at the L layers below the last one's output.

    Attributes:
        quantities: What is explained, by name, in the order of the scores.
        scores: Counted from zero, (K, L, T).
        from_mean: Counted from the mean state of each layer, (K, L, T).
        removed: What the next token's log-probability loses without each token, (T,).
        words: The words before the token at which the answer is read, with their tokens.
    """

    quantities: tuple[str, ...]
    scores: Array
    from_mean: Array
    removed: Array
    words: tuple[tuple[str, tuple[int, ...]], ...]

    def read(self, quantity: str, place: str, *, centred: bool) -> Array:
        """Return the scores of a quantity, the mean over the layers of a place, (T,)."""
        values = (self.from_mean if centred else self.scores)[self.quantities.index(quantity)]  # (L, T)
        first, last = (int(share * len(values)) for share in PLACES[place])
        mean: Array = values[first : last + 1].mean(0)
        return mean


def mean_states(explainer: Explainer, texts: Sequence[str]) -> Tensor:
    """Return the mean state of each layer over the tokens of texts but the first two, which may be sinks.

    Returns:
        (L + 1, H).
    """
    encodings = [encoding for encoding in explainer.encode(texts) if len(encoding) >= LEAST]
    states = [torch.stack(_states(explainer, encoding).hidden_states)[:, 0, 2:] for encoding in encodings]
    return torch.cat(states, 1).float().mean(1)


def explain(
    explainer: Explainer, prompts: Sequence[NamedPrompt], means: Tensor, on_progress: OnProgress | None = None
) -> list[Explained]:
    """Explain the next token of each prompt by several quantities at every layer, and leave out its tokens in turn."""
    return [_explained(explainer, prompt.prompt, means) for _, prompt in with_progress("prompts", prompts, on_progress)]


def _states(explainer: Explainer, encoding: Encoding) -> Any:
    """Return what the model itself returns for a text, with its hidden states."""
    module: Any = explainer.model
    with torch.inference_mode():
        return module(input_ids=torch.tensor([encoding.ids]), output_hidden_states=True)


def _explained(explainer: Explainer, text: str, means: Tensor) -> Explained:
    """Explain the next token of a text.

    Args:
        explainer: The model.
        text: The text.
        means: The mean state of each layer, (L + 1, H).
    """
    a = explainer(text, method="input-norm")  # for its words: this method costs least
    (encoding,) = explainer.encode([text])
    count = len(encoding)
    logits = _states(explainer, encoding).logits[0, -1].float()  # (V,)
    short = _states(explainer, encoding.take(range(max(count - 2, 0), count))).logits[0, -1].float()  # (V,)
    next_token = int(logits.argmax())
    weights = _weights(logits, short, next_token)
    scores = _contributions(explainer, encoding, weights, None)
    from_mean = _contributions(explainer, encoding, weights, means)
    without = torch.tensor([[*encoding.ids[:i], *encoding.ids[i + 1 :]] for i in range(count)])  # (T, T - 1)
    module: Any = explainer.model
    with torch.inference_mode():
        nats_without = module(input_ids=without).logits[:, -1].float().log_softmax(-1)[:, next_token]  # (T,)
    words = tuple((word.text, tuple(word.tokens)) for word in a.words() if a.reads_at not in word.tokens)
    removed = (logits.log_softmax(-1)[next_token] - nats_without).double().numpy()
    return Explained(tuple(weights), scores, from_mean, removed, words)


def _weights(logits: Tensor, short: Tensor, next_token: int) -> dict[str, Tensor]:
    """Return the weights of the vocabulary's logits in each quantity, (V,) each.

    Args:
        logits: After the whole text, (V,).
        short: After its last two tokens alone, (V,).
        next_token: The token that is explained.
    """
    chosen = torch.zeros_like(logits)
    chosen[next_token] = 1
    others = short.clone()
    others[next_token] = -torch.inf
    likeliest = torch.zeros_like(logits)
    likeliest[others.argmax()] = 1
    return {
        "logit minus its mean": chosen - 1 / len(logits),
        "less the likeliest after two tokens": chosen - likeliest,
        "less what two tokens predict": chosen - others.softmax(-1),
        "all logits, less what two tokens predict": logits.softmax(-1) - short.softmax(-1),
    }


def _contributions(
    explainer: Explainer, encoding: Encoding, weights: Mapping[str, Tensor], means: Tensor | None
) -> Array:
    """Return what each token contributes to each quantity at the layers, (K, L, T).

    Args:
        explainer: The model.
        encoding: The text.
        weights: The weights of the vocabulary's logits in each of the K quantities, (V,) each.
        means: States of the layers from which contributions are counted, (L + 1, H); None to count from zero.
    """
    model = explainer.language_model
    frozen = FrozenModel.of(model)
    batch = model.batch([encoding], [0])
    model.prepare(batch)
    places = [Place(Side.TEXT, layer) for layer in range(model.layer_count())]
    run = frozen.run(batch, Reading(places, SINK_THRESHOLD), predict=False)
    if means is not None:
        states = _states(explainer, encoding).hidden_states
        for place in places:
            run.readouts[place].vectors = [states[place.layer].float() - means[place.layer]]
    last = run.answer[:, -1]  # (1, H)
    rows = torch.stack(list(weights.values())) @ model.head.tokens(torch.eye(last.shape[1])).T  # (K, H)
    read = backpropagated(last.float() @ rows.T, run, places)
    return torch.stack([read.values[place][0] for place in places], 1).double().numpy()


def table(prompts: Sequence[NamedPrompt], explained: Sequence[Explained]) -> str:
    """Return named words and leave-one-out by quantity and place, and the difference to the default by prompt."""
    columns = ["explained", "read at", "counted from", "named word first ↑", "among the first two ↑"]
    columns += ["less the default's, mean of both ↑", "leave-one-out's nats before the last ↑"]
    hits = {}
    rows = []
    for quantity in explained[0].quantities:
        for place in PLACES:
            for centred in (False, True):
                scores = [of_prompt.read(quantity, place, centred=centred) for of_prompt in explained]
                hits[quantity, place, centred] = _named(prompts, explained, scores)
                rows.append((quantity, place, centred, _nats(explained, scores)))
    lines = []
    for quantity, place, centred, nats in rows:
        is_hit = hits[quantity, place, centred]  # (N, 2)
        less_default = interval_text(mean_interval((is_hit - hits[DEFAULT]).mean(1)))
        start = "the mean state" if centred else "zero"
        shares = [f"{share:.2f}" for share in is_hit.mean(0)]
        lines.append([quantity, place, start, *shares, less_default, f"{nats:.2f}"])
    return markdown_table(columns, lines)


def _named(prompts: Sequence[NamedPrompt], explained: Sequence[Explained], scores: Sequence[Array]) -> Array:
    """Return whether a named word is the first, and among the first two, of each prompt, (N, 2)."""
    is_hit = []
    for prompt, of_prompt, values in zip(prompts, explained, scores, strict=True):
        sums = [float(values[list(tokens)].sum()) for _, tokens in of_prompt.words]
        ranking = [of_prompt.words[place][0] for place in np.argsort(-np.array(sums), kind="stable")]
        is_hit.append([named_among(prompt, ranking, count) for count in FIRST])
    return np.array(is_hit, np.float64)


def _nats(explained: Sequence[Explained], scores: Sequence[Array]) -> float:
    """Return what the next tokens lose without the first-ranked token before the last, as a share of the most.

    The most is what they lose without the one that leave-one-out ranks first.
    """
    lost, most = 0.0, 0.0
    for of_prompt, values in zip(explained, scores, strict=True):
        losses = of_prompt.removed[:-1]  # (T - 1,)
        lost += float(losses[values[:-1].argmax()])
        most += float(losses.max())
    return lost / most
