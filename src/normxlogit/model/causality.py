"""Whether a model is causal: whether the states of a text's first tokens are the same with later tokens and without."""

from functools import partial

import torch
from torch import Tensor

from ..copies.precision import full_float32
from ..errors import InputError, UnsupportedModelError
from ..inputs.encoding import Encoding
from ..parts.proofs import later_tokens_change_nothing
from .forward_pass import ForwardPass
from .proved_lengths import ProvedLengths, doubling_lengths
from .task_model import TaskModel

PREFIX_TOKENS = 64  # most tokens of a prefix that is run again, unless states differ only for longer prefixes
SHARED_LENGTH = 128  # up to this many tokens all lengths are proved together; beyond it each longer text costs one pass


@torch.inference_mode()
def is_causal(model: TaskModel, run: ForwardPass, shortest: int) -> bool:
    """Return whether states of prefixes depend neither on later tokens nor on the text's length.

    Prefixes of the longest text are run by themselves: a rotary embedding that is rescaled gives other states.

    Args:
        model: A language model.
        run: A pass over texts.
        shortest: The number of tokens from which on prefixes are compared.

    Raises:
        UnsupportedModelError: If they depend on them because activations are quantised by the largest of all tokens.
    """
    proved = model.copy.causal_with_media if run.batch.media else model.copy.causal
    longest = run.batch.mask.shape[1]
    # Where they are equal, a single token is explained, at the end of all that was read.
    if shortest == longest or proved.covers(shortest, longest):
        return True
    with full_float32() as was_lower:  # whether the pass had a lower precision, which the caller has set
        return _is_proved_causal(model, run, proved, shortest, recompute=was_lower)


def _is_proved_causal(
    model: TaskModel, run: ForwardPass, proved: ProvedLengths, shortest: int, *, recompute: bool
) -> bool:
    """Prove `is_causal` for new lengths: for all short ones together if that can be, otherwise for those of a pass.

    Args:
        model: A language model.
        run: A pass over texts.
        proved: The lengths that are proved already.
        shortest: The number of tokens from which on prefixes are compared.
        recompute: Whether the states of the text are computed anew, in another precision than the pass.

    Raises:
        UnsupportedModelError: As `is_causal` does.
    """
    longest = run.batch.mask.shape[1]
    encodings = run.batch.encodings
    row = max(range(len(encodings)), key=lambda index: len(encodings[index]))
    text = encodings[row]  # the longest
    shared_length = min(SHARED_LENGTH, model.encoder.limit or SHARED_LENGTH)
    # Of a short text without media, lengths up to the shared one are tried at once, on the text repeated, unless a
    # trial has failed before.
    if not (longest >= shared_length or proved.refuted or run.batch.media):
        trial = partial(_is_causal_up_to, model, text, shared_length)
        if proved.prove(1, shared_length, trial):
            return True
    states = _states(model, text) if recompute else run.hidden[row, run.batch.mask[row]]  # (T, H)
    for prefix_lengths in _trial_lengths(run, len(text), shortest):
        if _prefixes_keep_states(model, text, states, prefix_lengths):
            proved.add(prefix_lengths[0], longest)
            return True
    if model.copy.mixes_texts:
        raise UnsupportedModelError(
            f"{model.class_name} quantises its activations by the largest of all tokens, so that later "
            "tokens change earlier states: one pass cannot explain each token by those before it; load the model in "
            "another precision"
        )
    return False


def _trial_lengths(run: ForwardPass, text_length: int, shortest: int) -> list[tuple[int, ...]]:
    """Return how many tokens the prefixes of a text have that are tried: a tuple for each trial, the next if one fails.

    A trial proves the lengths from that of its first prefix to that of the text.

    Args:
        run: A pass over texts.
        text_length: The number of tokens of the longest text.
        shortest: The number of tokens from which on prefixes are compared.
    """
    if run.batch.media:  # a shorter prefix could end inside a picture, which is read whole
        return [(shortest,)]
    longest_prefix = max(min(text_length // 2, PREFIX_TOKENS), 1)
    if shortest < longest_prefix:
        return [doubling_lengths(shortest, longest_prefix)]
    if shortest <= PREFIX_TOKENS:
        return [(shortest,)]
    # A shorter prefix costs less and proves more lengths, but differs where a rotary embedding stretches with length.
    return [(PREFIX_TOKENS,), (shortest,)]


def _is_causal_up_to(model: TaskModel, text: Encoding, length: int) -> bool:
    """Return whether prefixes of a text, which is repeated up to a length, have the same states alone as in it."""
    repeated = text.take(index % len(text) for index in range(length))
    try:
        states = _states(model, repeated)
        return _prefixes_keep_states(model, repeated, states, doubling_lengths(1, min(length // 2, PREFIX_TOKENS)))
    except InputError:  # a model may refuse this length
        return False


def _prefixes_keep_states(model: TaskModel, text: Encoding, states: Tensor, lengths: tuple[int, ...]) -> bool:
    """Return whether prefixes of some lengths have the same states alone as in the text, whose states are (T, H)."""
    return all(
        later_tokens_change_nothing(_states(model, text.take(range(length))), states[:length]) for length in lengths
    )


def _states(model: TaskModel, text: Encoding) -> Tensor:
    """Return the hidden states of a text that the head reads, (T, H)."""
    return model.run(model.batch([text]), predict=False).hidden[0]


@torch.inference_mode()
@full_float32()
def reads_prompt_as_alone(model: TaskModel, prompt: Encoding, followed: Encoding) -> bool:
    """Return whether a prompt has the same states alone, which `generate` keeps, as with tokens that follow it.

    Args:
        model: A language model.
        prompt: The prompt.
        followed: The prompt and the tokens.
    """
    alone, both = _states(model, prompt), _states(model, followed)  # (P, H), (T, H)
    return later_tokens_change_nothing(alone, both[: len(prompt)])
