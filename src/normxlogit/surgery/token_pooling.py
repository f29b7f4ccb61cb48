"""Which of a shortening trunk's states stands for which token.

Some trunks pool: they read T tokens and give fewer states. Without its layers, which mix the tokens, such a trunk only
pools, and then a state changes with a token exactly when the token is pooled into it.
"""

import functools
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from .layer_to_head import TrunkWithoutLayers
from .trace import Call, hand_back, tensor_of

__all__ = ["TokenPooling"]

ROWS = 64
"""Texts in one pass of the trunk without layers."""


class TokenPooling:
    """The states of a trunk that shortens the text, token by token.

    Args:
        model: A structural clone of the model.
        trunk: The call of the trunk.
        calls: What the modules did in a trial.
        filler: A token id that is not padding.
    """

    def __init__(self, model: PreTrainedModel, trunk: Call, calls: list[Call], filler: int) -> None:
        layers: dict[str, Any] = {}
        for call in calls:
            output = tensor_of(call.returned)
            inside = call.path.startswith(trunk.path + ".") and not any(call.path.startswith(p + ".") for p in layers)
            keeps = call.given is not None and output is not None and call.given.shape == output.shape
            if inside and keeps and call.given is not None and call.given.ndim == 3 and call.given.is_floating_point():
                layers[call.path] = functools.partial(hand_back, call.returned)
        if not layers:
            raise LookupError("the trunk has no layers that could be left out")
        self._trunk = TrunkWithoutLayers(model, trunk.path, layers)
        self._filler = filler
        self._device = trunk.hidden.device if trunk.hidden is not None else torch.device("cpu")
        self._known: dict[int, Tensor] = {}

    def __call__(self, hidden: Tensor, length: int) -> Tensor:
        """Give each token the state that it is pooled into.

        Args:
            hidden: What the trunk gave, (B, T', H).
            length: T, the number of tokens.

        Returns:
            (B, T, H).

        Raises:
            LookupError: If a token is pooled into several states, or a state holds no token.
        """
        if length not in self._known:
            self._known[length] = self._places(length)
        return hidden[:, self._known[length]]

    def _places(self, length: int) -> Tensor:
        """Return the state of each token, (T,); tokens that the trunk drops go with the one before them."""
        base = torch.full((1, length), self._filler, device=self._device)  # (1, T)
        step = -1 if self._filler else 1  # to another id of the vocabulary
        changed = base + step * torch.eye(length, dtype=torch.long, device=self._device)  # (T, T)
        with torch.inference_mode():
            plain = self._pool(base)  # (1, T', H)
            hits = torch.cat([(self._pool(part) != plain).any(-1) for part in changed.split(ROWS)])  # (T, T')
        if (hits.sum(-1) > 1).any() or not hits.any(0).all():
            raise LookupError("a token is pooled into several states, or a state holds no token")
        places: Tensor = (hits * torch.arange(hits.shape[1], device=hits.device)).sum(-1).cummax(0).values  # (T,)
        return places

    def _pool(self, ids: Tensor) -> Tensor:
        return self._trunk({"input_ids": ids, "attention_mask": torch.ones_like(ids)})
