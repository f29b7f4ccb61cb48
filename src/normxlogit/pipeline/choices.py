"""Explain tasks that compare several texts for an input, such as multiple choice."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import torch

from ..errors import InputError
from ..models.forward_pass import ForwardPass
from ..models.map_batches import map_batches
from ..models.task_model import TaskModel
from ..results.attribution import Attribution
from ..results.collection import Attributions
from ..surgery.memory import enough_memory
from ..tasks.choice import Alternatives, Comparing
from .explain import explain_batch
from .options import Options
from .progress import progress_bar


def explain_choices(model: TaskModel, inputs: Any, options: Options) -> Attribution | Attributions[Attribution]:
    """Explain which of several texts a model chooses.

    Returns:
        One result for one input, otherwise a list.

    Raises:
        InputError: If an input cannot be read, or an option is not for texts that are compared.
        TargetError: If there is no such choice or label.
    """
    task = cast(Comparing, model.task)
    task.locate([], options.position)
    questions, single = task.alternatives(inputs)
    options.check_count(len(questions))
    results = []
    with progress_bar(len(questions), options.progress) as advance:
        for index, question in enumerate(questions):
            results.append(_explain_one(model, task, question, options.only(index)))
            advance(1)
    return results[0] if single else Attributions(results)


@enough_memory("explain this input")
def _explain_one(model: TaskModel, task: Comparing, question: Alternatives, options: Options) -> Attribution:
    runs = _read(model, question.pairs, options)
    values = task.values(torch.stack([run.logits[row] for run, row in runs]))  # (C,)
    index = task.chosen(question.names, values, options.target, options.contrast)
    run, row = runs[index]
    result = explain_batch(model, run.row(row), replace(options, **task.pair_options()))[0]
    return replace(result, **task.compared(result, question.names, values, index))


def _read(model: TaskModel, pairs: Sequence[tuple[str, str]], options: Options) -> list[tuple[ForwardPass, int]]:
    """Read pairs of texts: the forward pass of each, and its row there."""
    if options.long_text == "window":
        raise InputError("choices are compared on the whole text each; long_text is 'truncate' or 'error' for them")
    encodings = model.encoder(list(pairs), long_text=options.long_text)

    def work(group: list[int]) -> list[tuple[ForwardPass, int]]:
        batch = model.batch([encodings[i] for i in group], group)
        with torch.inference_mode():
            run = model.run(batch, layers=options.layers is not None)
        return [(run, row) for row in range(len(group))]

    return map_batches(model, encodings, work)
