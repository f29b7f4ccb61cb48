"""Explain which of several texts a model chooses, and verify it: multiple choice and zero-shot classification."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor

from ..copies.memory import enough_memory
from ..errors import InputError
from ..inputs.encoding import Encoding
from ..leave_out.answers import Answer
from ..leave_out.outcomes import Outcomes, Progress, in_batches
from ..leave_out.removal import TextRemoval, tokens_removed
from ..leave_out.search import run_searches
from ..leave_out.units import removable_for_task
from ..model.batch_attempts import forward_passes
from ..model.forward_pass import ForwardPass
from ..model.task_model import TaskModel
from ..results.attribution import Attribution
from ..results.collection import Attributions
from ..tasks.choice import Alternatives, Comparing
from .options import Options
from .progress import progress_bar

ExplainBatch = Callable[[TaskModel, ForwardPass, Options], list[Attribution]]


def explain_choices(
    model: TaskModel, inputs: Any, options: Options, explain_batch: ExplainBatch
) -> Attribution | Attributions[Attribution]:
    """Explain which of several texts a model chooses.

    Returns:
        One result for one input, otherwise a list.

    Raises:
        InputError: If an input cannot be read, or an option is not for texts that are compared.
        TargetError: If there is no such choice or label.
    """
    task = cast(Comparing, model.task)
    task.position.locate([], options.position)
    questions, single = task.alternatives(inputs)
    options.check_count(len(questions))
    results = []
    with progress_bar(len(questions), options.progress) as advance:
        for index, question in enumerate(questions):
            results.append(_explain_one(model, question, options.only(index), explain_batch))
            advance(1)
    return results[0] if single else Attributions(results)


@enough_memory("explain this input")
def _explain_one(
    model: TaskModel, question: Alternatives, options: Options, explain_batch: ExplainBatch
) -> Attribution:
    task = cast(Comparing, model.task)
    if options.long_text == "window":
        raise InputError("choices are compared on the whole text each; long_text is 'truncate' or 'error' for them")
    encodings = model.encoder(list(question.pairs), long_text=options.long_text)
    runs = forward_passes(model, encodings, layers=options.layers is not None)
    values = task.values(torch.stack([run.logits[0] for run in runs]))  # (C,)
    index = task.chosen(question.names, values, options.target, options.contrast)
    result = explain_batch(model, runs[index], replace(options, **task.pair_options()))[0]
    compared = replace(result, **task.compared(result, question.names, values, index))
    if options.verify is None:
        return compared
    progress = partial(progress_bar, show=options.progress, description="verifying")
    answers = _answers_without(model, question.names, encodings, index, progress)
    (verified,) = run_searches([compared], [removable_for_task(model, compared, options.verify)], answers)
    return verified


def _answers_without(
    model: TaskModel, names: Sequence[str], encodings: Sequence[Encoding], index: int, progress: Progress
) -> Callable[[list[TextRemoval]], list[Answer]]:
    """Return a function that compares the pairs without some tokens of the explained one.

    Words of the first text are left out of every pair, those of the choice itself of its own pair.

    Args:
        model: The model.
        names: The names of the C pairs.
        encodings: Their encodings.
        index: The explained pair.
        progress: Shows the progress.
    """
    task = cast(Comparing, model.task)

    def read(inputs: list[Encoding], _: object) -> Iterable[Tensor]:
        return model.run(model.batch(inputs, list(range(len(inputs))))).logits

    table = Outcomes(in_batches(model, tokens_removed(model, encodings, masked=False), read), progress)
    spans = [_spans_in_first(encoding) for encoding in encodings]

    def removals_of(tokens: Sequence[int]) -> list[TextRemoval]:
        """Return what is removed of each pair."""
        shared = {spans[index][token] for token in tokens} - {None}
        found = [tuple(i for i, span in enumerate(spans_of_pair) if span in shared) for spans_of_pair in spans]
        return [(pair, tuple(tokens) if pair == index else found[pair]) for pair in range(len(encodings))]

    def answers(removals: list[TextRemoval]) -> list[Answer]:
        keys = [removals_of(tokens) for _, tokens in removals]
        table(key for keys_of_set in keys for key in keys_of_set)
        logits = [torch.stack(table(keys_of_set)) for keys_of_set in keys]  # (C, outputs) each
        return [Answer(*task.answer(names, task.values(of_set), index)) for of_set in logits]

    return answers


def _spans_in_first(encoding: Encoding) -> list[tuple[int, int] | None]:
    """Return the characters of each token of the first text of a pair, None of others; the place where not known."""
    spans = encoding.offsets or [(place, place + 1) for place in range(len(encoding))]
    return [span if of == 0 else None for span, of in zip(spans, encoding.sequence_ids, strict=True)]
