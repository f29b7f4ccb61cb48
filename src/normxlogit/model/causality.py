"""Causality: whether a token's hidden state is the same when the text ends at that token."""

import itertools

import torch
from torch import Tensor

from ..copies.arithmetic import full_float32
from ..errors import InputError, UnsupportedModelError
from ..inputs.encoding import Encoding
from ..parts.proofs import later_tokens_change_nothing
from .model_copy import ProvedLengths
from .task_model import ForwardPass, TaskModel

PREFIX_TOKENS = 64  # most tokens of a prefix that is run again, unless states differ only for longer prefixes
SHARED_LENGTH = 128  # up to this many tokens all lengths are proved together; beyond it each longer text costs one pass


@torch.inference_mode()
def is_causal(model: TaskModel, run: ForwardPass, shortest: int) -> bool:
    """Return whether states from the `shortest` prefix on depend neither on later tokens nor on the text's length.

    Prefixes of the longest text are run by themselves: a rotary embedding that is rescaled gives other states.
    """
    proved = model.copy.causal_with_media if run.batch.media else model.copy.causal
    longest = run.batch.mask.shape[1]
    if shortest == longest or proved.covers(shortest, longest):
        return True
    with full_float32() as states_differ:
        return _is_proved_causal(model, run, proved, shortest, again=states_differ)


def _is_proved_causal(model: TaskModel, run: ForwardPass, proved: ProvedLengths, shortest: int, *, again: bool) -> bool:
    """Prove `is_causal` for new lengths; `again`: from states of the text that are computed anew."""
    longest, encodings = run.batch.mask.shape[1], run.batch.encodings
    row = max(range(len(encodings)), key=lambda index: len(encodings[index]))
    text, length = encodings[row], len(encodings[row])
    longest_prefix = max(min(length // 2, PREFIX_TOKENS), 1)
    shared_length = min(SHARED_LENGTH, model.encoder.limit or SHARED_LENGTH)
    if longest < shared_length and not proved.refuted and not run.batch.media:
        try:
            repeated = text.take(index % length for index in range(shared_length))
            counts = _doubling_lengths(1, min(shared_length // 2, PREFIX_TOKENS))
            proved.refuted = not _prefixes_keep_states(model, repeated, _states(model, repeated), counts)
        except InputError:  # a model may refuse this length
            proved.refuted = True
        if not proved.refuted:
            proved.add(1, shared_length)
            return True
    states = _states(model, text) if again else run.hidden[row, run.batch.mask[row]]  # (T, H)
    if run.batch.media:  # a picture is read whole
        trials: list[tuple[int, ...]] = [(shortest,)]
    elif shortest < longest_prefix:
        trials = [_doubling_lengths(shortest, longest_prefix)]
    else:
        trials = sorted({(min(shortest, PREFIX_TOKENS),), (shortest,)})
    for counts in trials:
        if _prefixes_keep_states(model, text, states, counts):
            proved.add(counts[0], longest)
            return True
    if model.copy.mixes_texts:
        raise UnsupportedModelError(
            f"{type(model.module).__name__} quantises its activations by the largest of all tokens, so that later "
            "tokens change earlier states: one pass cannot explain each token by those before it; load the model in "
            "another precision"
        )
    return False


def _doubling_lengths(first: int, last: int) -> tuple[int, ...]:
    """Return lengths from one to another, each at most twice the one before, see `lengths_to_try`."""
    return (*itertools.takewhile(lambda length: length < last, (first << n for n in itertools.count())), last)


def _prefixes_keep_states(model: TaskModel, text: Encoding, states: Tensor, counts: tuple[int, ...]) -> bool:
    """Return whether prefixes of a text of so many tokens have the same states alone as in the text, (T, H)."""
    return all(later_tokens_change_nothing(_states(model, text.take(range(count))), states[:count]) for count in counts)


def _states(model: TaskModel, text: Encoding) -> Tensor:
    """Return the hidden states of a text that the head reads, (T, H)."""
    return model.run(model.batch([text], [0]), predict=False).hidden[0]
