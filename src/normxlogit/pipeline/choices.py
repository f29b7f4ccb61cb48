"""Explain tasks that compare several texts for an input, such as multiple choice."""

from dataclasses import replace
from typing import Any, cast

import torch

from ..copies.memory import enough_memory
from ..errors import InputError
from ..model.batch_attempts import forward_passes
from ..model.task_model import TaskModel
from ..results.attribution import Attribution
from ..results.collection import Attributions
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
    return replace(compared, notes=(*compared.notes, "not verified: the choices are compared on several texts"))
