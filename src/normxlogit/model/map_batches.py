"""Run a model over many encodings in batches, which shrink when memory runs out."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor

from ..copies.memory import result_or_none
from ..errors import InputError
from ..inputs.batching import Batch, batches
from ..inputs.columns import EncodingColumns, sizes_of
from ..inputs.encoding import Encoding
from ..parts.proofs import padding_changes_nothing
from ..parts.proved_lengths import lengths_to_try
from .forward_pass import ForwardPass
from .proof_sample import failed_inside
from .task_model import TaskModel

Item = TypeVar("Item")
Result = TypeVar("Result")


def run_batches(
    model: TaskModel, encodings: Sequence[Encoding], work: Callable[[list[int]], Result], share: int = 1
) -> Iterator[tuple[list[int], Result]]:
    """Yield the results of work on encodings in batches; when memory runs out, go on with half the token budget.

    The model keeps the smaller budget for the calls that follow, see `TokenBudget`, unless not even a single text fits,
    which says nothing of others. Models whose states change with padding get batches without any, so that a text's
    scores are the same alone and among others. Texts that the model cannot read together, as BART's classifier with
    different numbers of end tokens, are read one by one, and so are prompts with pictures.

    Args:
        model: Holds the token budget.
        encodings: What to work through.
        work: Does the work on the encodings at some places.
        share: How many times the memory of a plain pass the work takes.

    Yields:
        The places of each batch and the result of the work.
    """
    never_batch = model.copy.mixes_texts or _hold_pictures(encodings)
    pad = not never_batch and _may_pad(model, encodings)
    lengths = sizes_of(encodings)
    budget = model.budget
    budget_before = budget.tokens

    def current_budget() -> int:
        return 0 if never_batch else budget.tokens // share

    remaining_batches = deque(batches(encodings, current_budget(), pad=pad))
    while remaining_batches:
        places = remaining_batches[0]
        try:
            result = result_or_none(partial(work, places))
        except InputError as error:
            if len(places) == 1 or not failed_inside(error):
                raise
            remaining_batches.popleft()
            remaining_batches.extendleft([index] for index in reversed(places))
            continue
        longest = max(lengths[place] for place in places)
        tokens = longest * len(places)
        if result is not None:
            remaining_batches.popleft()
            yield places, result
            regroup = budget.fitted(tokens * share)
        else:
            if len(places) == 1:  # what a method does with one text may be cut by the budget too
                tokens = budget.tokens
            smaller = max(min(budget.tokens, tokens) // 2, longest)
            if smaller >= budget.tokens:
                budget.restore(budget_before)
                raise InputError(f"there is not enough memory to explain a single text of {longest} tokens")
            budget.shrink(smaller, tokens * share)
            regroup = True
        if regroup:
            remaining = [place for group in remaining_batches for place in group]
            remaining_batches = deque(
                [remaining[place] for place in group]
                for group in batches([encodings[place] for place in remaining], current_budget(), pad=pad)
            )


def map_batches(
    model: TaskModel, encodings: Sequence[Encoding], work: Callable[[list[int]], Iterable[Item]], share: int = 1
) -> list[Item]:
    """Return the results of work on encodings in batches, as `run_batches` does it, one for each encoding.

    Returns:
        The results in the order of the encodings.

    Raises:
        InputError: If there is not enough memory for a single text.
    """
    by_index: dict[int, Item] = {}
    for places, results in run_batches(model, encodings, work, share):
        by_index.update(zip(places, results, strict=True))
    return [by_index[index] for index in range(len(encodings))]


def forward_passes(model: TaskModel, encodings: Sequence[Encoding], *, layers: bool) -> list[ForwardPass]:
    """Return the forward pass of each encoding; with every layer's output if `layers`."""

    def work(group: list[int]) -> list[ForwardPass]:
        with torch.inference_mode():
            run = model.run(model.batch([encodings[place] for place in group], group), layers=layers)
        return [run.row(row) for row in range(len(group))]

    return map_batches(model, encodings, work)


def _hold_pictures(encodings: Sequence[Encoding]) -> bool:
    """Return whether pictures stand among the words of a text, which is read by itself then."""
    return not isinstance(encodings, EncodingColumns) and any(encoding.media for encoding in encodings)


def _may_pad(model: TaskModel, encodings: Sequence[Encoding]) -> bool:
    """Return whether padding leaves a text's states unchanged; tried with the shortest and the longest text.

    A trial holds for all lengths between them, see `ProvedLengths`.
    """
    if len(encodings) < 2:
        return True  # alone, nothing is put beside it
    model.refresh()
    lengths = sizes_of(encodings)
    shortest, longest, proved = min(lengths), max(lengths), model.copy.padding
    if shortest == longest or proved.refuted or proved.covers(shortest, longest):
        return not proved.refuted
    trial_texts = [encodings[list(lengths).index(length)] for length in (*lengths_to_try(lengths), longest)]
    is_same = result_or_none(lambda: _ignores_padding(model, trial_texts))
    if is_same is None:  # no memory for two; there are no more than one in a batch then
        return False
    if is_same:
        proved.add(shortest, longest)
    proved.refuted = not is_same
    return is_same


def _ignores_padding(model: TaskModel, encodings: list[Encoding]) -> bool:
    """Return whether each text has the same states alone and padded to the longest, which is the last."""
    padded_batch = model.batch(encodings, list(range(len(encodings))))
    for index, encoding in enumerate(encodings[:-1]):
        row = slice(index, index + 1)
        inputs = {name: value[row] for name, value in padded_batch.inputs.items()}
        batched = Batch(inputs, padded_batch.mask[row], [encoding], [0])
        pairs = zip(
            _compared_states(model, model.batch([encoding], [0])), _compared_states(model, batched), strict=True
        )
        if not all(padding_changes_nothing(alone, padded) for alone, padded in pairs):
            return False
    return True


def _compared_states(model: TaskModel, batch: Batch) -> list[Tensor]:
    """Return what must not change with padding: one text's states, (T, H), and, but of vocabularies, its logits."""
    with torch.inference_mode():
        model.prepare(batch)
        headless = model.parts.trunk is None
        if model.task.vocabulary and not headless:
            return [model.states(batch)[batch.mask]]
        run = model.run(batch)
    answer = run.logits if run.logits_by_position is None else run.logits_by_position[batch.mask]
    return [answer] if headless else [run.hidden[batch.mask], answer]
