"""Methods on the numbers of a picture or a sound, through Captum, on the caller's own model: what others would use."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from normxlogit.copies.clone import clone
from normxlogit.copies.pool import private_clone
from normxlogit.decompositions.matrix import with_residual
from normxlogit.errors import UnsupportedModelError
from normxlogit.explainer import Explainer
from normxlogit.inputs.encoded_media import EncodedMedium, ScoreSpread
from normxlogit.media.inputs.sounds import read_sound
from normxlogit.methods.base import import_package
from normxlogit.parts.signal_entry import SignalEntry, find_signal_entry
from normxlogit.pipeline.completions.completed_prompts import read_completion
from normxlogit.results.attribution import Attribution

Array = npt.NDArray[np.float64]

PEERS = ("gradient-x-input", "integrated-gradients", "occlusion", "attention-rollout")
"""What can be compared with the library's methods."""

STEPS = 20
"""Points of Integrated Gradients."""


@dataclass(frozen=True)
class SignalAnswer:
    """The logits of generated tokens, each minus its mean over the vocabulary, as a function of a picture or sound.

    Attributes:
        model: The caller's own.
        inputs: What it reads, with the generated tokens.
        signal: The input that is the picture or the sound.
        entry: Where that enters the model.
        places: Where each generated token is predicted, (G,).
        ids: The generated tokens, (G,).
        medium: The places of its parts, and of the tokens that stand for it.
    """

    model: Any
    inputs: Mapping[str, Tensor]
    signal: str
    entry: SignalEntry
    places: Tensor
    ids: Tensor
    medium: EncodedMedium

    @property
    def values(self) -> Tensor:
        """The numbers of the picture or the sound."""
        return self.inputs[self.signal]

    def logits(self, values: Tensor) -> Tensor:
        """Return the logits of each generated token, (G, V), for other numbers."""
        logits: Tensor = self.model(**{**self.inputs, self.signal: values}).logits[0, self.places].float()
        return logits

    def quantity(self, values: Tensor, token: int) -> Tensor:
        """Return what is explained of one generated token, (1,), for one entry of a batch of numbers."""
        logits = self.logits(values[0])[token]
        return (logits[self.ids[token]] - logits.mean())[None]

    def probabilities(self, without: npt.NDArray[np.bool_]) -> Array:
        """Return the probability of each generated token, (G,), without some places: their numbers become the mean.

        Args:
            without: Which of the places, counted through all axes.
        """
        spread = self._spread
        removed = np.bincount(spread.parts, spread.shares * without[spread.places]) > 0.5  # (N,)
        in_removed = torch.isin(self.parts, torch.from_numpy(np.flatnonzero(removed)))
        return self._chosen(torch.where(in_removed, self.values.mean(), self.values))

    @cached_property
    def own_probabilities(self) -> Array:
        """The probability of each generated token, (G,), with all of the picture or sound."""
        return self._chosen(self.values)

    def _chosen(self, values: Tensor) -> Array:
        """Return the probability of each generated token, (G,), for other numbers."""
        with torch.no_grad():
            logits = self.logits(values)
        chosen = logits.softmax(-1).gather(-1, self.ids[:, None])[:, 0]
        return np.asarray(chosen, np.float64)

    @property
    def _spread(self) -> ScoreSpread:
        """How the scores of the entry's parts become those of places."""
        if self.medium.by_part is None:
            raise UnsupportedModelError(f"where in {self.medium.name} its parts are cannot be told")
        return self.medium.by_part

    @cached_property
    def parts(self) -> Tensor:
        """Which part each number belongs to, in the shape of the numbers; -1 where it belongs to none."""
        values = torch.zeros(self.entry.input_shape, requires_grad=True)
        # The derivative of the mean of a part by a number is positive if the number belongs to it; of the means times
        # their indices it is that times the index of the part.
        means = self.entry.patch_means(values)  # (N,)
        order = torch.arange(len(means), dtype=means.dtype)
        (weight,) = torch.autograd.grad(means.sum(), values, retain_graph=True)
        (weighted,) = torch.autograd.grad((means * order).sum(), values)
        index = torch.where(weight > 0, weighted / weight, torch.full_like(weight, -1)).round().long()
        return index.reshape(self.values.shape)

    def scores(self, method: str) -> Array:
        """Return the score of each place of the picture or sound for each generated token, (G, ...).

        Args:
            method: One of `PEERS`.

        Raises:
            UnsupportedModelError: If it cannot be told where the parts, or the tokens that stand for them, are.
        """
        if method == "attention-rollout":
            if self.medium.by_token is None:
                raise UnsupportedModelError("attention rollout needs a token that stands for each place of the picture")
            return np.asarray(self.medium.by_token(self._rollout()), np.float64)
        attributed = torch.stack([self._captum(method, token).reshape(-1) for token in range(len(self.ids))])  # (G, P)
        parts = self.parts.reshape(-1)
        scores = torch.zeros(len(attributed), _count(self.entry))
        scores.index_add_(1, parts[parts >= 0], attributed[:, parts >= 0].float())
        return np.asarray(self._spread(scores.double().numpy()), np.float64)

    def _captum(self, method: str, token: int) -> Tensor:
        """Return the scores of the numbers for one generated token by a method of Captum, in a batch of one."""
        captum = import_package("captum.attr")
        values = self.values.detach()[None].clone()
        scores: Tensor
        if method == "occlusion":
            no_part = torch.full_like(self.parts, _count(self.entry))  # what is in no part goes by itself
            mask = torch.where(self.parts < 0, no_part, self.parts)[None]
            with torch.no_grad():
                scores = captum.FeatureAblation(self.quantity).attribute(
                    values, baselines=float(values.mean()), feature_mask=mask, additional_forward_args=(token,)
                )
            counts = torch.bincount(mask.reshape(-1)).to(scores)[mask]  # every number of a part has the part's score
            return scores / counts
        values.requires_grad_()
        if method == "gradient-x-input":
            scores = captum.InputXGradient(self.quantity).attribute(values, additional_forward_args=(token,))
        else:
            integrated = captum.IntegratedGradients(self.quantity)
            options: dict[str, Any] = {"n_steps": STEPS, "internal_batch_size": 1}
            scores = integrated.attribute(values, additional_forward_args=(token,), **options)
        return scores.detach()

    def _rollout(self) -> Array:
        """Return the attention rollout of each generated token to the tokens that stand for the picture, (G, P)."""
        with torch.no_grad():
            copied: Any = clone(self.model)
            copied.set_attn_implementation("eager")  # fused kernels return no probabilities
            layers = copied(**self.inputs, output_attentions=True).attentions
        flow = torch.eye(layers[0].shape[-1])
        for attention in layers:  # (1, heads, T, T)
            flow = with_residual(attention.float())[0] @ flow
        return flow[self.places][:, list(self.medium.tokens)].double().numpy()


def signal_answer(explainer: Explainer, g: Attribution, prompt: Any) -> SignalAnswer:
    """Return the answer of a model as a function of the only picture or sound that it was given.

    Args:
        explainer: The model.
        g: What it generated.
        prompt: What it was given.

    Raises:
        UnsupportedModelError: If nothing but token ids is read.
    """
    model = explainer.language_model
    ids = torch.tensor(g.token_ids)  # (T,)
    count = g.prompt_tokens or 0
    if g.images:
        encoding = read_completion(model, prompt, ids[count:].tolist()).encoding
        inputs = model.batch([encoding], [0]).inputs
        medium: Any = encoding.media[0]
    else:
        task: Any = model.task
        sound = read_sound(prompt, task.rate, 0)
        encoded_sound = task.read_signal(model, sound)
        inputs = {name: value[None] for name, value in encoded_sound.inputs.items()}
        inputs["decoder_input_ids"] = ids[None]
        medium = encoded_sound.medium  # a function of the number of parts
    entry = find_signal_entry(private_clone(model.unmodified), inputs)
    signal = next((name for name, value in inputs.items() if value.is_floating_point()), "")
    if entry is None or math.prod(entry.input_shape) != inputs[signal].numel():
        raise UnsupportedModelError(f"{type(explainer.model).__name__} does not read all of {prompt!r} at one entry")
    medium = medium if g.images else medium(_count(entry))
    places = torch.arange(count - 1, len(ids) - 1)
    return SignalAnswer(explainer.model, inputs, signal, entry, places, ids[count:], medium)


def _count(entry: SignalEntry) -> int:
    """Return how many parts there are at an entry."""
    return len(entry.patch_means(torch.zeros(entry.input_shape)))
