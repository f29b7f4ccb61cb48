"""The input of a model that holds what is explained: token ids, or what a task reads instead of them."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ..copies.forward_arguments import IDS


@dataclass(frozen=True)
class MainInput:
    """The input that holds what is explained.

    Attributes:
        name: Its name.
        filler: A token id that is neither padding nor absent from the vocabulary: heads that look for the last real
            token or the end-of-sequence token find it in every one-token sequence.
        token_shape: The shape of a token's numbers, where they are not ids.
    """

    name: str
    filler: int
    token_shape: tuple[int, ...] = ()

    def another(self, value: Tensor) -> Tensor:
        """Return another input of the same shape, (B, T, ...): of fillers, or with noise."""
        if self.name == IDS:
            return torch.full_like(value, self.filler)
        noise = torch.randn(value.shape, generator=torch.Generator().manual_seed(0))
        return value + noise.to(value)

    def of_tokens(self, states: Tensor) -> Tensor:
        """Return N inputs of one token, (N, 1, ...), for heads that read their states, (N, H), alone."""
        if self.name == IDS:
            return states.new_full((len(states), 1), self.filler, dtype=torch.long)
        return states.new_zeros((len(states), 1, *self.token_shape))
