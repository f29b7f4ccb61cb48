"""Multiple choice: every choice is a text of its own, and the tokens of one of them are explained."""

import operator
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError, TargetError
from ..models.forward_pass import ForwardPass
from ..models.map_batches import map_batches
from ..models.targets import All, Choice, TargetSpec, is_choice
from ..models.task_model import TaskModel
from ..results.attribution import Attribution, Prediction, TargetInfo
from ..results.collection import Attributions
from ..surgery.memory import enough_memory
from .explain import explain_batch
from .options import Options
from .progress import progress_bar

__all__ = ["Question", "as_choice", "chosen_index", "explain_questions", "questions_in", "read_choices"]

Question = tuple[str, Sequence[str]]
"""A prompt and the choices that may follow it."""


def explain_questions(model: TaskModel, inputs: Any, options: Options) -> Attribution | Attributions[Attribution]:
    """Explain the choices that a multiple-choice model takes.

    Args:
        model: The model.
        inputs: A tuple (prompt, choices), or several.
        options: What is wanted.

    Returns:
        One result for one question, otherwise a list.

    Raises:
        InputError: If an input is no question, or an option is not for questions.
        TargetError: If there is no such choice.
    """
    if options.position is not None:
        raise InputError("position= chooses a token of token classifiers and masked language models")
    single = isinstance(inputs, str | tuple)
    questions = questions_in([inputs] if single else inputs)
    options.check_count(len(questions))
    results = []
    model.refresh()
    with progress_bar(len(questions), options.progress) as advance:
        for place, question in enumerate(questions):
            results.append(_explain_question(model, question, options.only(place)))
            advance(1)
    return results[0] if single else Attributions(results)


@enough_memory("explain this question")
def _explain_question(model: TaskModel, question: Question, options: Options) -> Attribution:
    prompt, choices = question
    read = read_choices(model, [(prompt, choice) for choice in choices], options)
    logits = torch.stack([run.logits[row] for run, row in read])  # (C, 1)
    index = chosen_index(choices, logits[:, 0], options.target, options.contrast)
    run, row = read[index]
    result = explain_batch(model, run.row(row), replace(options, target=None))[0]
    return as_choice(result, choices, logits, index)


def read_choices(model: TaskModel, pairs: Sequence[tuple[str, str]], options: Options) -> list[tuple[ForwardPass, int]]:
    """Read a text with each of several others: the forward pass of each pair, and its row there.

    Raises:
        InputError: If they are to be read in windows.
    """
    if options.long_text == "window":
        raise InputError("choices are compared on the whole text each; long_text is 'truncate' or 'error' for them")
    encodings = model.encoder(list(pairs), long_text=options.long_text or "truncate")

    def work(group: list[int]) -> list[tuple[ForwardPass, int]]:
        batch = model.batch([encodings[i] for i in group], group)
        with torch.inference_mode():
            run = model.run(batch, layers=options.layers is not None)
        return [(run, row) for row in range(len(group))]

    return map_batches(model, encodings, work)


def questions_in(inputs: Any) -> list[Question]:
    """Check the inputs of a multiple-choice model.

    Raises:
        InputError: If one of them is not a prompt with at least two choices.
    """
    questions = list(inputs) if isinstance(inputs, Iterable) else [inputs]
    for place, question in enumerate(questions):
        fits = isinstance(question, tuple) and len(question) == 2 and isinstance(question[0], str)
        choices = question[1] if fits else None
        if isinstance(choices, str) or not isinstance(choices, Sequence) or len(choices) < 2:
            raise InputError(f"input {place} must be (prompt, [choices]) with two choices or more")
    return questions


def chosen_index(choices: Sequence[str], logits: Tensor, spec: TargetSpec, contrast: Choice | None) -> int:
    """Return the choice whose tokens are explained.

    Args:
        choices: The C choices.
        logits: The model's logit for each, (C,).
        spec: None for the model's own, a choice or its index.
        contrast: Not possible here, and refused.

    Raises:
        TargetError: If there is no such choice, or more than one is asked for.
    """
    if contrast is not None or isinstance(spec, All) or not (spec is None or is_choice(spec)):
        raise TargetError("each choice has tokens of its own: explain one at a time, without a contrast")
    if spec is None:
        return int(logits.argmax())
    if isinstance(spec, str):
        if spec not in choices:
            raise TargetError(f"no choice {spec!r} among {', '.join(map(repr, choices))}")
        return list(choices).index(spec)
    index = operator.index(spec)
    if not 0 <= index < len(choices):
        raise TargetError(f"there is no choice {index}; they are counted from 0 to {len(choices) - 1}")
    return index


def as_choice(result: Attribution, choices: Sequence[str], logits: Tensor, index: int) -> Attribution:
    """Say in a row's result which choice it is, and which the model takes.

    Args:
        result: The explanation of row `index`.
        choices: The C choices.
        logits: The model's logit for each, (C, 1).
        index: The choice explained.
    """
    values = logits[:, 0].float()  # (C,)
    best = int(values.argmax())
    prediction = Prediction(choices[best], best, float(values[best]), float(values.softmax(-1)[best]))
    return replace(result, prediction=prediction, target=TargetInfo("label", (choices[index],), (index,)))
