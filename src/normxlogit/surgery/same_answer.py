"""Whether a model gives one answer to one text: asked again, beside another text, and by its head on another text."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from ..errors import HeadMismatchError, UnsupportedModelError
from .headpiece import Headpiece, answer_of
from .memory import refuse_to_hide
from .non_finite import is_number
from .pool import private_clone
from .run import Site, run
from .trace import hidden_of

__all__ = ["EXCLUDED", "SUMS", "apart", "check_repeatable", "mixes_by_rounding", "prove_on_another", "tolerance_for"]

REPEATED = 8
"""How often a model that draws random numbers is asked the same."""

SUMS = 10
"""Sums in another order, as of a larger batch, may differ by this many times what rounding explains in a single one."""

EXCLUDED = 1e4
"""Logits beyond this are no answer: some heads push the question's tokens out of a reader's choice like that."""


def tolerance_for(logits: Tensor) -> float:
    """Return the difference that rounding explains, for logits of this size and precision."""
    rounding = 1e-5 if logits.dtype in (torch.float32, torch.float64) else 8 * torch.finfo(logits.dtype).eps
    return float(rounding * _size(logits))


def _size(logits: Tensor) -> float:
    """Return the largest logit that is not excluded, 1 or more."""
    size = logits.abs()
    return max(1.0, size[size < EXCLUDED].max().item() if (size < EXCLUDED).any() else 1.0)


def apart(found: Tensor, wanted: Tensor) -> float:
    """Return the largest difference between two answers, infinite where their shapes differ.

    A value beyond EXCLUDED, as a regression model may answer with, counts relative to its own size, so that
    `tolerance_for` holds for it too; the same infinity is no difference.
    """
    if found.shape != wanted.shape:
        return float("inf")
    difference = (found - wanted).abs().masked_fill(found == wanted, 0.0)
    size = wanted.abs()
    return (difference / torch.where(size < EXCLUDED, 1.0, size / _size(wanted))).max().item()


def check_repeatable(model: PreTrainedModel, inputs: Mapping[str, Any], logits: Tensor) -> None:
    """Ask a model the same again, as it is now.

    Raises:
        UnsupportedModelError: If it answers otherwise: scores would be of neither answer.
    """
    state, difference = torch.get_rng_state(), 0.0
    for asked in range(REPEATED):
        with torch.inference_mode():
            found = answer_of(private_clone(model)(**inputs))
        difference = max(difference, torch.inf if found is None else apart(found, logits))
        if not asked and torch.equal(torch.get_rng_state(), state):
            break  # no numbers were drawn, which need not tell each time
    if not difference <= tolerance_for(logits):
        raise UnsupportedModelError(
            f"{type(model).__name__} answers the same input differently each time, by {difference:.2g}: dropout or "
            "noise that evaluation mode does not switch off, or something that it remembers; take that out, or fix its "
            "seed"
        )


def prove_on_another(
    model: PreTrainedModel, head: Headpiece | None, inputs: Mapping[str, Any], logits: Tensor | None, tokenwise: bool
) -> None:
    """Compare the head with the model on another text, and the model on texts side by side with it on one.

    Args:
        model: A structural clone.
        head: Its head; None without one, where only the model's answers are compared.
        inputs: A small batch.
        logits: The model's answer to it; None where texts are known to differ side by side, and are read so that they
            do not.
        tokenwise: Whether the head answers at single tokens.

    Raises:
        HeadMismatchError: If the head differs, as where it reads something that the model kept from a pass before.
        UnsupportedModelError: If texts, or tokens as texts, change each other's answers.
    """
    name = next((n for n in ("input_ids", "pixel_values", "input_features", "input_values") if n in inputs), None)
    if name is None:
        return
    count = len(inputs[name])
    both = {n: torch.cat((v, v.roll(1, -1) if n == name else v)) for n, v in inputs.items() if isinstance(v, Tensor)}
    sites = [] if head is None else [Site(head.trunk, call=0)]
    try:
        with torch.inference_mode():
            done = run(private_clone(model), {**inputs, **both}, record=sites)
        answers = answer_of(done.output)
    except Exception as error:  # the same tokens in this order may be no text that the model reads
        refuse_to_hide(error)
        return
    if answers is None or not is_number(answers):
        return
    mixed = 0.0 if logits is None else apart(answers[:count], logits)
    trunk = [output for site in sites for output in done.seen.get(site, ())]
    hidden = hidden_of(trunk[-1]) if trunk else None
    if head is not None and hidden is not None:
        hidden = head.by_text(hidden)  # (B, T, H)
        with torch.inference_mode():
            difference = apart(head.whole(hidden, {**inputs, **both}), answers)
            tokens = head.tokens(hidden[0]) if tokenwise else hidden[0, :1]  # (T, C)
            alone = head.tokens(hidden[0, :1]) if tokenwise else tokens  # (1, C)
        if not difference <= tolerance_for(answers):
            raise HeadMismatchError(
                f"the head of {type(model).__name__} reproduces the model's logits on one text and not on another, by "
                f"{difference:.2g}: it reads something else than {head.trunk} gives it, such as a state kept from a "
                "pass before"
            )
        mixed = max(mixed, apart(tokens[:1], alone))
    if not mixes_by_rounding(model) and not mixed <= _batch_tolerance(answers):
        raise UnsupportedModelError(
            f"{type(model).__name__} answers a text differently beside another one, by {mixed:.2g}: something in it "
            "works on the whole batch, such as a batch norm without running statistics or experts of limited capacity"
        )


def _batch_tolerance(logits: Tensor) -> float:
    """Return the difference that sums in another order explain; that of half precision is wide as it is."""
    return tolerance_for(logits) * (SUMS if logits.dtype in (torch.float32, torch.float64) else 1)


def mixes_by_rounding(model: nn.Module) -> bool:
    """Return whether activations are quantised by the largest of a batch, so that texts change each other's answers."""
    return any(".quantized.dynamic" in type(module).__module__ for module in model.modules())
