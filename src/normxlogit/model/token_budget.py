"""How many tokens a forward pass can have, by the memory that is free."""

import torch
from torch import nn

from ..copies.memory import free_memory

GRAPH_MEMORY = 4
"""How many times the memory of a plain pass one takes whose graph is kept for a backward pass."""

MOST_TOKENS = 8192
"""Most tokens of a plain pass by default on a CPU, where more are no faster."""

MOST_TOKENS_ON_ACCELERATORS = 65_536
"""The same on accelerators: the more tokens, the fewer kernels are launched for each."""

FEWEST_TOKENS = 1024
"""Fewest tokens of a plain pass by default: the estimate is a rough one, and too large a batch is split."""

SHARE_OF_MEMORY = 0.5
"""Share of the free memory that the states of a pass may take by the estimate."""

KEPT_OF_LAYER = 1.5
"""What a graph keeps for a token, as a multiple of the widths of all linear maps: BERT and Llama keep 1.4 of them."""


def tokens_that_fit(module: nn.Module, device: torch.device, vocabulary: int) -> int:
    """Return how many tokens a plain forward pass can have in the memory that is free.

    The vocabulary is the width of a language model's head, of which few rows are computed; 0 for other models.
    """
    free = free_memory(device)
    if free is None:
        return MOST_TOKENS
    most = MOST_TOKENS if device.type == "cpu" else MOST_TOKENS_ON_ACCELERATORS
    tokens_kept = int(SHARE_OF_MEMORY * free / _bytes_kept(module, vocabulary))
    return min(most, max(FEWEST_TOKENS, tokens_kept * GRAPH_MEMORY))


def _bytes_kept(module: nn.Module, vocabulary: int) -> float:
    """Estimate the bytes that the graph of a pass keeps for each token, from the widths of the linear maps."""
    widths = 0
    for part in module.modules():
        if not isinstance(part, nn.Embedding):
            shapes = [weight.shape[-2:] for weight in part.parameters(recurse=False) if weight.ndim > 1]
            if isinstance(part, nn.Linear):  # a quantised weight has another shape
                shapes = [torch.Size((part.in_features, part.out_features))]
            widths += sum(max(shape) for shape in shapes if vocabulary not in shape)
    element = next((weight.element_size() for weight in module.parameters() if weight.is_floating_point()), 4)
    return max(1.0, KEPT_OF_LAYER * widths * element)
