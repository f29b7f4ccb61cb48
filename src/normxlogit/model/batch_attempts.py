"""Batches of encodings that are split when memory runs out."""

import itertools
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor

from ..copies.memory import empty_cache, out_of_memory
from ..copies.precision import full_float32
from ..errors import InputError
from ..inputs.batches import Batch, batches, sizes_of
from ..inputs.encoding import Encoding
from ..parts.proofs import padding_changes_nothing
from .forward_pass import ForwardPass
from .proved_lengths import lengths_to_try
from .task_model import TaskModel

Result = TypeVar("Result")

GROWS_AFTER = 16  # so many consecutive batches must fit into memory before a larger one is tried again


class BatchAttempt:
    """A `with` block for one batch; some of its errors are suppressed, so that the batch can be tried again in pieces.

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
        may_pad = not never_batch and _may_pad(model, encodings, remaining)
        while remaining:
            tokens = model.batch_tokens // memory_factor
            queue = _batches_of(encodings, remaining, tokens, pad=may_pad, alone=never_batch)
            remaining = []
            while queue:
                attempt = BatchAttempt(queue.popleft())
                yield attempt
                if attempt.unreadable:  # each text alone comes next, in their order, which `extendleft` turns around
                    queue.extendleft([index] for index in reversed(attempt.indices))
                elif attempt.out_of_memory:  # what is left is divided again, into smaller batches
                    _take_fewer_tokens(model, lengths, attempt.indices, tokens_before)
                    remaining = [*attempt.indices, *itertools.chain(*queue)]
                    queue.clear()
                else:
                    _count_fitted(model)


def _batches_of(
    encodings: Sequence[Encoding], indices: Sequence[int], tokens: int, *, pad: bool, alone: bool
) -> deque[list[int]]:
    """Return the indices of some encodings in batches of at most so many tokens, or each alone; see `batches`."""
    groups = batches([encodings[index] for index in indices], 0 if alone else tokens, pad=pad)
    return deque([indices[position] for position in group] for group in groups)


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
    """Return the indices of encodings in groups that may share a batch: texts, or signals of one shape."""
    groups: dict[Hashable, list[int]] = {}
    for index, encoding in enumerate(encodings):
        shapes = encoding.signal and encoding.signal.shapes  # None of a text
        groups.setdefault(shapes, []).append(index)
    return list(groups.values())


def _count_fitted(model: TaskModel) -> None:
    """Count a batch that fitted into memory; after many, let a model take larger ones again."""
    model.batches_fitted += 1
    if model.batches_fitted >= GROWS_AFTER:
        model.batch_tokens = min(2 * model.batch_tokens, model.most_tokens)
        model.batches_fitted = 0


def _take_fewer_tokens(model: TaskModel, lengths: list[int], indices: list[int], tokens_before: int) -> None:
    """Let a model take smaller batches than one for which there was too little memory, of half as many tokens.

    Args:
        model: The model.
        lengths: The tokens of each text.
        indices: The texts of the batch.
        tokens_before: The tokens of a batch before any attempt, which are restored if a single text does not fit.

    Raises:
        InputError: If batches are as small as the text already.
    """
    empty_cache()
    longest = max(lengths[index] for index in indices)  # a batch of it alone is as small as a batch gets
    # Of a single text, `batch_tokens` bounds the work of a method, such as how many changed texts it reads at a time.
    tokens = model.batch_tokens if len(indices) == 1 else longest * len(indices)
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
        # A backward pass may need the inputs again, and cannot use tensors that are made in inference mode.
        batch = model.batch([encodings[index] for index in indices], indices)
        with torch.inference_mode():
            run = model.run(batch, layers=layers)
            return list(map(run.row, range(len(indices))))

    return results_in_batches(model, encodings, passes)


def _may_pad(model: TaskModel, encodings: Sequence[Encoding], indices: list[int]) -> bool:
    """Return whether padding leaves the states of some texts unchanged; lengths that are not proved yet are tried.

    Args:
        model: The model, whose proved lengths are kept with its copy, see `ProvedLengths`.
        encodings: All texts.
        indices: Which of them are padded.
    """
    if len(indices) < 2:  # nothing is padded
        return True
    model.refresh()  # what was proved of another copy says nothing
    texts = [encodings[index] for index in indices]
    lengths = sizes_of(texts)
    shortest = min(lengths)
    longest = max(lengths)
    proved = model.copy.padding
    if proved.refuted:
        return False
    if shortest == longest or proved.covers(shortest, longest):
        return True
    text_of_length = dict(zip(lengths, texts, strict=True))  # any text of each length
    trial_texts = [text_of_length[length] for length in (*lengths_to_try(lengths), longest)]
    return proved.prove(shortest, longest, partial(_ignores_padding, model, trial_texts))


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
    """Return the tensors that padding must not change: the states, (T, H), and, except for vocabularies, the logits.

    A vocabulary's logits are computed from the states alone, and take much memory.
    """
    with torch.inference_mode():
        run = model.run(batch, predict=False)
    states = [run.final[batch.mask]] if isinstance(run.final, Tensor) else []  # none without a head that reads them
    if model.task.outputs.vocabulary and states:
        return states
    return [*states, run.logits if run.logits_by_position is None else run.logits_by_position[batch.mask]]
