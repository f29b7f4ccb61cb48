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

from ..errors import UnsupportedModelError
from ..explainer import Explainer
from ..inputs.sounds import read_sound
from ..methods.base import imported
from ..pipeline.writing import read_completion
from ..results.generation import GenerationAttribution
from ..surgery.clone import clone
from ..surgery.pool import private_clone
from ..surgery.signal_entry import SignalEntry, find_signal_entry

__all__ = ["PEERS", "SignalAnswer", "signal_answer"]

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
        standing: The tokens that stand for the picture among the words; () where none do.
    """

    model: Any
    inputs: Mapping[str, Tensor]
    signal: str
    entry: SignalEntry
    places: Tensor
    ids: Tensor
    standing: tuple[int, ...]

    @property
    def values(self) -> Tensor:
        """The numbers of the picture or the sound."""
        return self.inputs[self.signal]

    def logits(self, values: Tensor) -> Tensor:
        """Return the logits of each generated token, (G, V), for other numbers."""
        logits: Tensor = self.model(**{**self.inputs, self.signal: values}).logits[0, self.places].float()
        return logits

    def quantity(self, values: Tensor, token: int) -> Tensor:
        """Return what is explained of one generated token, (1,)."""
        logits = self.logits(values)[token]
        return (logits[self.ids[token]] - logits.mean())[None]

    def probabilities(self, without: npt.NDArray[np.bool_]) -> Array:
        """Return the probability of each generated token, (G,), without some parts: their numbers become the mean.

        Args:
            without: Which of the N parts.
        """
        parts = self.parts
        gone = torch.from_numpy(np.flatnonzero(without))
        gone = torch.isin(parts, gone)
        with torch.no_grad():
            logits = self.logits(torch.where(gone, self.values.mean(), self.values))
        chosen = logits.softmax(-1).gather(-1, self.ids[:, None])[:, 0]
        return np.asarray(chosen, np.float64)

    @cached_property
    def parts(self) -> Tensor:
        """Which part each number belongs to, in the shape of the numbers; -1 where it belongs to none."""
        values = torch.zeros(self.entry.given, requires_grad=True)
        means = self.entry.mean(values)  # (N,)
        order = torch.arange(len(means), dtype=means.dtype)
        (weight,) = torch.autograd.grad(means.sum(), values, retain_graph=True)
        (weighted,) = torch.autograd.grad((means * order).sum(), values)
        index = torch.where(weight > 0, weighted / weight, torch.full_like(weight, -1)).round().long()
        return index.reshape(self.values.shape)

    def scores(self, method: str, shape: tuple[int, ...]) -> Array:
        """Return the score of each part for each generated token.

        Args:
            method: One of `PEERS`.
            shape: Of the scores, the G tokens first; parts beyond them, such as those after the end of a sound, have
                none.

        Raises:
            UnsupportedModelError: If no tokens stand for the parts of the picture, whose attention could be read.
        """
        if method == "attention-rollout":
            if len(self.standing) != math.prod(shape[1:]):
                raise UnsupportedModelError("attention rollout needs a token that stands for each part of the picture")
            return self._rollout().reshape(shape)
        attributed = torch.stack([self._captum(method, token).reshape(-1) for token in range(len(self.ids))])  # (G, P)
        parts = self.parts.reshape(-1)
        scores = torch.zeros(len(attributed), int(parts.max()) + 1)
        scores.index_add_(1, parts[parts >= 0], attributed[:, parts >= 0].float())
        return scores[:, : math.prod(shape[1:])].double().numpy().reshape(shape)

    def _captum(self, method: str, token: int) -> Tensor:
        captum = imported("captum.attr")
        values = self.values.detach().clone()
        scores: Tensor
        if method == "occlusion":
            mask = self.parts.clamp(min=0)
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
        eager: Any = clone(self.model)
        eager.set_attn_implementation("eager")  # fused kernels return no attention probabilities
        with torch.no_grad():
            layers = eager(**self.inputs, output_attentions=True).attentions
        flow = torch.eye(layers[0].shape[-1])
        for attention in layers:  # (1, heads, T, T)
            flow = (attention[0].float().mean(0) + torch.eye(len(flow))) / 2 @ flow
        return flow[self.places][:, list(self.standing)].double().numpy()


def signal_answer(explainer: Explainer, g: GenerationAttribution, prompt: Any) -> SignalAnswer:
    """Return the answer of a model as a function of the only picture or sound that it was given.

    Args:
        explainer: The model.
        g: What it generated.
        prompt: What it was given.

    Raises:
        UnsupportedModelError: If nothing but token ids is read.
    """
    model, count, ids = explainer._language_model, g.prompt_tokens, torch.tensor(g.token_ids)
    if g.images:
        encoding = read_completion(model, prompt, ids[count:].tolist()).encoding
        inputs = model.batch([encoding], [0]).inputs
    else:
        task: Any = model.task
        signal_inputs = task.read_signal(model, read_sound(prompt, task.rate, 0)).inputs
        inputs = {name: value[None] for name, value in signal_inputs.items()} | {"decoder_input_ids": ids[None]}
    entry = find_signal_entry(private_clone(model.reference), inputs)
    signal = next(name for name, value in inputs.items() if value.is_floating_point())
    if entry is None:
        raise UnsupportedModelError(f"{type(explainer.model).__name__} reads nothing but token ids")
    standing = tuple(token for image in g.images for token in image.tokens)
    places = torch.arange(count - 1, len(ids) - 1)
    return SignalAnswer(explainer.model, inputs, signal, entry, places, ids[count:], standing)
