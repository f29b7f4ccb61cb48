"""Batches of encodings that are split when memory runs out."""

import itertools
from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor

from ..copies.memory import empty_cache, out_of_memory
from ..copies.precision import full_float32
from ..errors import InputError, UnsupportedModelError
from ..inputs.batches import Batch, batches, sizes_of
from ..inputs.encoding import Encoding
from ..parts.proofs import later_tokens_change_nothing, padding_changes_nothing
from .forward_pass import ForwardPass
from .model_copy import ProvedLengths
from .task_model import TaskModel

Result = TypeVar("Result")

GROWS_AFTER = 16  # so many consecutive batches must fit into memory before a larger one is tried again
PREFIX_TOKENS = 64  # most tokens of a prefix that is run again, unless states differ only for longer prefixes
SHARED_LENGTH = 128  # up to this many tokens all lengths are proved together; beyond it each longer text costs one pass


class BatchAttempt:
    """A `with` block for one batch, which is tried again in pieces if it fails: its error is then suppressed.

    Attributes:
        indices: The indices of the batch's texts, which the block is given.
        out_of_memory: Whether memory ran out in the block.
        unreadable: Whether the model could not read these texts together, and may read each by itself.
    """

    def __init__(self, indices: list[int]) -> None:
        self.indices = indices
        self.out_of_memory = False
        self.unreadable = False

    def __enter__(self) -> list[int]:
        return self.indices

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        if error is not None:
            self.out_of_memory = out_of_memory(error)
            # An `InputError` with a cause is an error of the model's own code, see `input_errors`.
            self.unreadable = len(self.indices) > 1 and isinstance(error, InputError) and error.__cause__ is not None
        return self.out_of_memory or self.unreadable


def batch_attempts(model: TaskModel, encodings: Sequence[Encoding], memory_factor: int = 1) -> Iterator[BatchAttempt]:
    """Yield batches of encodings by their indices, each to be used in a `with` block; signals of one shape together.

    When memory runs out, smaller ones follow, and the model keeps the smaller `batch_tokens`, unless not even a single
    text fits. Texts that the model cannot read together are read one by one, and so are prompts with media.

    Args:
        model: The model.
        encodings: The texts.
        memory_factor: How many times the memory of a plain pass the work in the block takes.

    Raises:
        InputError: If memory runs out with a single text.
    """
    never_batch = model.copy.mixes_texts or any(encoding.media for encoding in encodings)
    lengths = sizes_of(encodings)
    tokens_before = model.batch_tokens
    for remaining in _read_together(encodings):  # indices of the texts that no block has read
        may_pad = not never_batch and _may_pad(model, [encodings[index] for index in remaining])
        while remaining:
            budget = 0 if never_batch else model.batch_tokens // memory_factor  # with 0 each text is a batch
            queue = _queued(encodings, remaining, budget, pad=may_pad)
            remaining = yield from _attempts(model, queue, lengths, tokens_before)


def _queued(encodings: Sequence[Encoding], indices: Sequence[int], budget: int, *, pad: bool) -> deque[list[int]]:
    """Return the indices of encodings in batches of at most `budget` tokens; see `batches`."""
    groups = batches([encodings[index] for index in indices], budget, pad=pad)
    return deque([indices[position] for position in group] for group in groups)


def _attempts(
    model: TaskModel, queue: deque[list[int]], lengths: list[int], tokens_before: int
) -> Generator[BatchAttempt, None, list[int]]:
    """Yield an attempt for each group of texts in a queue; return the texts that are left when memory runs out.

    Args:
        model: The model.
        queue: The indices of the texts of each group.
        lengths: The tokens of all texts.
        tokens_before: The tokens of a batch before any attempt.
    """
    while queue:
        indices = queue.popleft()
        attempt = BatchAttempt(indices)
        yield attempt
        if attempt.unreadable:
            queue.extendleft([index] for index in reversed(indices))
        elif attempt.out_of_memory:
            _take_fewer_tokens(model, [lengths[index] for index in indices], tokens_before)
            return [*indices, *itertools.chain(*queue)]
        else:
            _count_fitted(model)
    return []


def results_in_batches(
    model: TaskModel,
    encodings: Sequence[Encoding],
    work: Callable[[list[int]], Iterable[Result]],
    memory_factor: int = 1,
) -> list[Result]:
    """Return a result for each encoding, in their order, which are computed batch by batch; see `batch_attempts`.

    Args:
        model: The model.
        encodings: The texts.
        work: Returns the results of one batch, whose texts it is given by their indices.
        memory_factor: As in `batch_attempts`.

    Raises:
        InputError: If memory runs out with a single text.
    """
    results: dict[int, Result] = {}
    for attempt in batch_attempts(model, encodings, memory_factor):
        with attempt as indices:
            results.update(zip(indices, work(indices), strict=True))
    return [results[index] for index in range(len(encodings))]


def _read_together(encodings: Sequence[Encoding]) -> list[list[int]]:
    """Return the indices of encodings that may share a batch: texts, which are padded, or signals of one shape."""
    groups: dict[Hashable, list[int]] = {}
    for index, encoding in enumerate(encodings):
        shapes = encoding.signal and encoding.signal.shapes  # None of a text
        groups.setdefault(shapes, []).append(index)
    return list(groups.values())


def _count_fitted(model: TaskModel) -> None:
    """Let a model take larger batches again after many that fitted into memory."""
    model.batches_fitted += 1
    if model.batches_fitted >= GROWS_AFTER:
        model.batch_tokens = min(2 * model.batch_tokens, model.most_tokens)
        model.batches_fitted = 0


def _take_fewer_tokens(model: TaskModel, lengths: list[int], tokens_before: int) -> None:
    """Let a model take smaller batches than one for which there was too little memory, of half as many tokens.

    Args:
        model: The model.
        lengths: The tokens of each text of the batch.
        tokens_before: The tokens of a batch before any attempt, which are restored if a single text does not fit.

    Raises:
        InputError: If batches are as small as the text already.
    """
    empty_cache()
    longest = max(lengths)
    # Of a single text, `batch_tokens` bounds the work of a method, such as how many changed texts it reads at a time.
    tokens = model.batch_tokens if len(lengths) == 1 else longest * len(lengths)
    fewer_tokens = max(min(model.batch_tokens, tokens) // 2, longest)
    if fewer_tokens >= model.batch_tokens:
        model.batch_tokens = tokens_before
        raise InputError(f"there is not enough memory to explain a single input of {longest} tokens")
    model.batch_tokens = fewer_tokens
    model.batches_fitted = 0


def forward_passes(model: TaskModel, encodings: Sequence[Encoding], *, layers: bool) -> list[ForwardPass]:
    """Return the forward pass of each encoding, with the outputs of all layers if `layers`.

    Raises:
        InputError: If memory runs out with a single text, or the model cannot read one.
    """

    def passes(indices: list[int]) -> list[ForwardPass]:
        # Outside of inference mode, whose tensors cannot take part in a backward pass.
        batch = model.batch([encodings[index] for index in indices], indices)
        with torch.inference_mode():
            run = model.run(batch, layers=layers)
            return list(map(run.row, range(len(indices))))

    return results_in_batches(model, encodings, passes)


def _may_pad(model: TaskModel, encodings: Sequence[Encoding]) -> bool:
    """Return whether padding leaves the states of all texts unchanged; lengths that are not proved yet are tried.

    Args:
        model: The model, whose proved lengths are kept with its copy, see `ProvedLengths`.
        encodings: The texts.
    """
    if len(encodings) < 2:
        return True
    model.refresh()
    lengths = sizes_of(encodings)
    shortest = min(lengths)
    longest = max(lengths)
    proved = model.copy.padding
    if proved.refuted:
        return False
    if shortest == longest or proved.covers(shortest, longest):
        return True
    text_of_length = dict(zip(lengths, encodings, strict=True))
    trial_texts = [text_of_length[length] for length in (*lengths_to_try(lengths), longest)]
    return proved.prove(shortest, longest, partial(_ignores_padding, model, trial_texts))


def lengths_to_try(lengths: Iterable[int]) -> list[int]:
    """Return which lengths to test in a batch with the longest text: each about twice the one before.

    If texts get other states from some length of padding on, one of these texts gets at least half of that padding.

    Args:
        lengths: The lengths of texts, at least two different ones.
    """
    *shorter, longest = sorted(set(lengths))
    bounds = _doubling_lengths(shorter[0], longest)
    return sorted({max(length for length in shorter if length <= bound) for bound in bounds})


@full_float32()
def _ignores_padding(model: TaskModel, encodings: list[Encoding]) -> bool:
    """Return whether each text has the same states alone and padded to the longest, which is the last."""
    padded_batch = model.batch(encodings)
    for index, encoding in enumerate(encodings[:-1]):
        batched = padded_batch.rows(slice(index, index + 1))
        alone = _compared_states(model, model.batch([encoding]))
        if not all(map(padding_changes_nothing, alone, _compared_states(model, batched))):
            return False
    return True


def _compared_states(model: TaskModel, batch: Batch) -> list[Tensor]:
    """Return the tensors that padding must not change: the states, (T, H), and, except for vocabularies, the logits."""
    with torch.inference_mode():
        run = model.run(batch, predict=False)
    states = [run.final[batch.mask]] if isinstance(run.final, Tensor) else []
    if model.task.outputs.vocabulary and states:
        return states
    return [*states, run.logits if run.logits_by_position is None else run.logits_by_position[batch.mask]]


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
    if shortest == longest or proved.covers(shortest, longest):
        return True
    with full_float32() as states_differ:  # from those of the pass, where the caller has set a lower precision
        return _is_proved_causal(model, run, proved, shortest, recompute=states_differ)


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
            f"{type(model.module).__name__} quantises its activations by the largest of all tokens, so that later "
            "tokens change earlier states: one pass cannot explain each token by those before it; load the model in "
            "another precision"
        )
    return False


def _trial_lengths(run: ForwardPass, text_length: int, shortest: int) -> list[tuple[int, ...]]:
    """Return which prefixes of a text are tried: one tuple of lengths for each trial, the next if one fails.

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
        return [_doubling_lengths(shortest, longest_prefix)]
    if shortest <= PREFIX_TOKENS:
        return [(shortest,)]
    # A shorter prefix costs less and proves more lengths, but differs where a rotary embedding stretches with length.
    return [(PREFIX_TOKENS,), (shortest,)]


def _is_causal_up_to(model: TaskModel, text: Encoding, length: int) -> bool:
    """Return whether prefixes of a text, which is repeated up to a length, have the same states alone as in it."""
    repeated = text.take(index % len(text) for index in range(length))
    try:
        states = _states(model, repeated)
        return _prefixes_keep_states(model, repeated, states, _doubling_lengths(1, min(length // 2, PREFIX_TOKENS)))
    except InputError:  # a model may refuse this length
        return False


def _doubling_lengths(first: int, last: int) -> tuple[int, ...]:
    """Return lengths from one to another, each at most twice the one before, see `lengths_to_try`."""
    lengths = []
    while first < last:
        lengths.append(first)
        first *= 2
    return (*lengths, last)


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
