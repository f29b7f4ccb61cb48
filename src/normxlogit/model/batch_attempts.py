"""Batches of encodings that are split when memory runs out."""

import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor

from ..copies.arithmetic import full_float32
from ..copies.memory import empty_cache, out_of_memory, result_or_none
from ..errors import InputError
from ..inputs.encoding import Batch, Encoding, batches, sizes_of
from ..parts.proofs import padding_changes_nothing
from .task_model import ForwardPass, TaskModel

GROWS_AFTER = 16  # so many consecutive batches must fit into memory before a larger one is tried again


class BatchAttempt:
    """A `with` block for one batch; in pieces again if memory ran out or the model cannot read the texts together."""

    def __init__(self, indices: list[int]) -> None:
        self.indices = indices
        self.out_of_memory = self.unreadable = False

    def __enter__(self) -> list[int]:
        return self.indices

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        if error is not None:
            self.out_of_memory = out_of_memory(error)
            self.unreadable = len(self.indices) > 1 and isinstance(error, InputError) and error.__cause__ is not None
        return self.out_of_memory or self.unreadable


def batch_attempts(model: TaskModel, encodings: Sequence[Encoding], memory_factor: int = 1) -> Iterator[BatchAttempt]:
    """Yield batches of encodings, each to be used in a `with` block, see `forward_passes`.

    When memory runs out, smaller ones follow, and the model keeps the smaller `batch_tokens`, unless not even a single
    text fits. Texts that the model cannot read together are read one by one, and so are prompts with media. The work
    takes `memory_factor` times the memory of a plain pass.
    """
    never_batch = model.copy.mixes_texts or any(encoding.media for encoding in encodings)
    may_pad = not never_batch and _may_pad(model, encodings)
    lengths = sizes_of(encodings)
    tokens_before = model.batch_tokens

    def split(indices: Sequence[int]) -> deque[list[int]]:
        budget = 0 if never_batch else model.batch_tokens // memory_factor
        groups = batches([encodings[index] for index in indices], budget, pad=may_pad)
        return deque([indices[index] for index in group] for group in groups)

    remaining_batches = split(range(len(encodings)))
    while remaining_batches:
        indices = remaining_batches.popleft()
        attempt = BatchAttempt(indices)
        yield attempt
        if attempt.unreadable:
            remaining_batches.extendleft([index] for index in reversed(indices))
        elif not attempt.out_of_memory:
            model.batches_fitted += 1
            if model.batches_fitted >= GROWS_AFTER:
                model.batch_tokens, model.batches_fitted = min(2 * model.batch_tokens, model.most_tokens), 0
        else:
            empty_cache()
            longest = max(lengths[index] for index in indices)
            # It also bounds the work of a method on a single text.
            tokens = model.batch_tokens if len(indices) == 1 else longest * len(indices)
            fewer_tokens = max(min(model.batch_tokens, tokens) // 2, longest)
            if fewer_tokens >= model.batch_tokens:
                model.batch_tokens = tokens_before
                raise InputError(f"there is not enough memory to explain a single text of {longest} tokens")
            model.batch_tokens, model.batches_fitted = fewer_tokens, 0
            remaining_batches = split([index for group in (indices, *remaining_batches) for index in group])


def forward_passes(model: TaskModel, encodings: Sequence[Encoding], *, layers: bool) -> list[ForwardPass]:
    """Return the forward pass of each encoding, with the outputs of all layers if `layers`."""
    passes: dict[int, ForwardPass] = {}
    for attempt in batch_attempts(model, encodings):
        with attempt as indices:
            batch = model.batch([encodings[index] for index in indices], indices)  # of which methods take gradients
            with torch.inference_mode():
                run = model.run(batch, layers=layers)
                passes.update((index, run.row(row)) for row, index in enumerate(indices))
    return [passes[index] for index in range(len(encodings))]


def _may_pad(model: TaskModel, encodings: Sequence[Encoding]) -> bool:
    """Return whether padding leaves a text's states unchanged, see `ProvedLengths`."""
    if len(encodings) < 2:
        return True
    model.refresh()
    lengths = sizes_of(encodings)
    shortest, longest, proved = min(lengths), max(lengths), model.copy.padding
    if shortest == longest or proved.refuted or proved.covers(shortest, longest):
        return not proved.refuted
    trial_texts = [encodings[list(lengths).index(length)] for length in (*lengths_to_try(lengths), longest)]
    is_same = result_or_none(lambda: _ignores_padding(model, trial_texts))
    if is_same:
        proved.add(shortest, longest)
    proved.refuted = is_same is False  # None without memory for two: there is one in a batch then
    return bool(is_same)


def lengths_to_try(lengths: Iterable[int]) -> list[int]:
    """Return the lengths to test in a batch with the longest text, of at least two lengths: each near twice the last.

    Whatever the length from which states are others, one of more than half of the tokens that it changes is among them.
    """
    *shorter, longest = sorted(set(lengths))
    bounds = itertools.takewhile(lambda bound: bound < 2 * longest, (shorter[0] << n for n in itertools.count()))
    return sorted({max(length for length in shorter if length <= bound) for bound in bounds})


@full_float32()
def _ignores_padding(model: TaskModel, encodings: list[Encoding]) -> bool:
    """Return whether each text has the same states alone and padded to the longest, which is the last."""
    padded_batch = model.batch(encodings, list(range(len(encodings))))
    for index, encoding in enumerate(encodings[:-1]):
        batched = padded_batch.rows(slice(index, index + 1))
        alone, padded = (_compared_states(model, batch) for batch in (model.batch([encoding], [0]), batched))
        if not all(map(padding_changes_nothing, alone, padded)):
            return False
    return True


def _compared_states(model: TaskModel, batch: Batch) -> list[Tensor]:
    """Return the tensors that padding must not change: the states, (T, H), and, except for vocabularies, the logits."""
    with torch.inference_mode():
        model.prepare(batch)
        headless = model.parts.trunk is None
        if model.task.outputs.vocabulary and not headless:
            return [model.states(batch)[batch.mask]]
        run = model.run(batch)
    answer = run.logits if run.logits_by_position is None else run.logits_by_position[batch.mask]
    return [answer] if headless else [run.hidden[batch.mask], answer]
