"""Trunks that pool tokens: the mapping of tokens to states.

Some trunks pool: they read T tokens and give fewer states. With its layers skipped, which mix the tokens, such a trunk
only pools, and then a state changes with a token exactly when the token is pooled into it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel

from ..copies.pool import Pool
from ..copies.run import Form
from ..copies.trace import Call
from .layer_to_head import run_trunk

ROWS = 64
"""Texts in one pass of a trunk with its layers skipped."""


@dataclass(frozen=True)
class TokenPooling:
    """The layers of a pooling trunk that are skipped to find its mapping.

    Attributes:
        layers: Their paths, with how they return a state.
        filler: A token id that is not padding.
    """

    layers: Mapping[str, Form]
    filler: int


def find_token_pooling(trunk: Call, calls: list[Call], filler: int) -> TokenPooling:
    """Return the layers to skip so that a trunk only pools: those that keep the number of states."""
    layers: dict[str, Form] = {}
    for call in calls:
        nested = any(call.path.startswith(layer + ".") for layer in layers)
        if call.path.startswith(trunk.path + ".") and not nested and call.keeps_shape:
            layers[call.path] = Form.of(call.returned)
    if not layers:
        raise LookupError("the trunk has no layers that could be left out")
    return TokenPooling(layers, filler)


def token_state_indices(
    pool: Pool[PreTrainedModel], trunk: str, pooling: TokenPooling, length: int, device: torch.device
) -> Tensor:
    """Return the index of each token's state, (T,); a token that the trunk drops gets that of the token before."""
    instead = {path: form.return_input for path, form in pooling.layers.items()}

    def pool_tokens(ids: Tensor) -> Tensor:
        return run_trunk(pool, trunk, instead, {"input_ids": ids, "attention_mask": torch.ones_like(ids)})

    base_ids = torch.full((1, length), pooling.filler, device=device)  # (1, T)
    step = -1 if pooling.filler else 1  # to another id of the vocabulary
    changed_ids = base_ids + step * torch.eye(length, dtype=torch.long, device=device)  # (T, T)
    with torch.inference_mode():
        base_states = pool_tokens(base_ids)  # (1, T', H)
        changes = [(pool_tokens(ids) != base_states).any(-1) for ids in changed_ids.split(ROWS)]
        state_changed = torch.cat(changes)  # (T, T')
    if (state_changed.sum(-1) > 1).any() or not state_changed.any(0).all():
        raise LookupError("a token is pooled into several states, or a state holds no token")
    state_indices = torch.arange(state_changed.shape[1], device=device)  # (T',)
    by_token: Tensor = (state_changed * state_indices).sum(-1).cummax(0).values  # (T,)
    return by_token
