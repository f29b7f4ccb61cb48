"""Baselines: the word embeddings at which the path of integrated gradients begins."""

from typing import Literal

import torch
from torch import Tensor

from ..errors import MethodError
from .base import Request

Baseline = Literal["zero", "pad", "mask"]


def baseline_vectors(request: Request, vectors: Tensor, baseline: Baseline) -> Tensor:
    """Return the baseline of each token.

    Args:
        request: The request.
        vectors: The word embeddings of its batch, (B, T, H).
        baseline: "zero" for zero vectors everywhere; the embedding of the "pad" or "mask" token for all
            tokens but the special ones and, in a masked language model, the mask that is the question.

    Returns:
        (B, T, H).
    """
    if baseline == "zero":
        return torch.zeros_like(vectors)
    model, batch = request.model, request.forward.batch
    filler = model.pad_id if baseline == "pad" else model.tokenizer.mask_token_id
    if filler is None:
        raise MethodError("the tokenizer has no mask token; use baseline=zero or baseline=pad")
    ids = batch.inputs["input_ids"].clone()  # (B, T)
    for row, encoding in enumerate(batch.encodings):
        is_text = torch.tensor([not is_special for is_special in encoding.special], device=ids.device)  # (T,)
        ids[row, batch.mask[row].nonzero()[:, 0][is_text]] = filler
    positions = request.forward.positions
    if model.task.explains_mask and positions is not None:  # the question itself stays
        rows = torch.arange(len(ids), device=ids.device)
        ids[rows, positions] = batch.inputs["input_ids"][rows, positions]
    with torch.no_grad():
        return model.embeddings(ids).to(vectors.dtype)
