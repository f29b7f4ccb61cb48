"""Causality: whether a token's hidden state is the same when the text ends at that token."""

import torch
from torch import Tensor

from ..errors import InputError, UnsupportedModelError
from ..inputs.encoding import Encoding
from ..parts.proofs import later_tokens_change_nothing
from .forward_pass import ForwardPass
from .task_model import TaskModel

TOKENS = 64
"""Most tokens of a prefix that is run again, unless states differ only for longer prefixes."""

SHORT = 128
"""Up to this many tokens all lengths are proved together; beyond it each longer text costs one pass."""


@torch.inference_mode()
def is_causal(model: TaskModel, run: ForwardPass, shortest: int) -> bool:
    """Return whether the hidden states from some token on depend neither on later tokens nor on the text's length.

    Prefixes of the longest text are run by themselves: a causal trunk gives the same states. A rotary embedding that
    is rescaled beyond some length gives other states to prefixes below that length. What was proved holds for the
    lengths in between, which are not tried again.

    Args:
        model: A causal language model, or one that may not be.
        run: A pass over texts.
        shortest: Tokens of the shortest prefix whose last state is used.
    """
    proved = model.copy.causal_beside if run.batch.media else model.copy.causal
    longest = run.batch.mask.shape[1]
    if shortest == longest or proved.covers(shortest, longest):
        return True
    encodings = run.batch.encodings
    row = max(range(len(encodings)), key=lambda i: len(encodings[i]))
    text, size = encodings[row], len(encodings[row])
    half, short = max(min(size // 2, TOKENS), 1), min(SHORT, model.encoder.limit or SHORT)
    if longest < short and not proved.refuted and not run.batch.media:
        try:
            repeated = text.take(i % size for i in range(short))
            counts = _doubling(1, min(short // 2, TOKENS))
            proved.refuted = not _same_beginnings(model, repeated, _states(model, repeated), counts)
        except InputError:  # a model may refuse this length
            proved.refuted = True
        if not proved.refuted:
            proved.add(1, short)
            return True
    states = run.hidden[row, run.batch.mask[row]]  # (T, H)
    beginnings = [_doubling(shortest, half)] if shortest < half else sorted({(min(shortest, TOKENS),), (shortest,)})
    for counts in [(shortest,)] if run.batch.media else beginnings:  # a picture is read whole
        if _same_beginnings(model, text, states, counts):
            proved.add(counts[0], longest)
            return True
    if model.copy.mixes_texts:
        raise UnsupportedModelError(
            f"{type(model.module).__name__} quantises its activations by the largest of all tokens, so that later "
            "tokens change earlier states: one pass cannot explain each token by those before it; load the model in "
            "another precision"
        )
    return False


def _doubling(first: int, last: int) -> tuple[int, ...]:
    """Return numbers of tokens from one to another, each at most twice the one before.

    Short prefixes prove little: the first token has the same state with any rotary embedding. Whatever the length from
    which states differ, a prefix of more than half of that length is among these.
    """
    counts = []
    while first < last:
        counts.append(first)
        first *= 2
    return (*counts, last)


def _same_beginnings(model: TaskModel, text: Encoding, states: Tensor, counts: tuple[int, ...]) -> bool:
    """Return whether prefixes of a text, run by themselves, have the same states as in the text, (T, H)."""
    return all(later_tokens_change_nothing(_states(model, text.take(range(n))), states[:n]) for n in counts)


def _states(model: TaskModel, text: Encoding) -> Tensor:
    """Return what the head reads of a text, (T, H)."""
    return model.run(model.batch([text], [0]), predict=False).hidden[0]
