"""Multiple choice: every choice is a text of its own, and the tokens of one of them are explained."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from ..errors import InputError, TargetError
from ..models.targets import Choice, TargetSpec
from ..results.attribution import Attribution, Prediction, TargetInfo

__all__ = ["Question", "as_choice", "chosen_index", "questions_in"]

Question = tuple[str, Sequence[str]]
"""A prompt and the choices that may follow it."""


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
    """The choice whose tokens are explained.

    Args:
        choices: The C choices.
        logits: The model's logit for each, (C, 1).
        spec: "predicted", a choice or its index.
        contrast: Not possible here, and refused.

    Raises:
        TargetError: If there is no such choice, or more than one is asked for.
    """
    if contrast is not None or spec == "all" or not isinstance(spec, str | int) or isinstance(spec, bool):
        raise TargetError("each choice has tokens of its own: explain one at a time, without a contrast")
    if spec == "predicted":
        return int(logits[:, 0].argmax())
    index = spec
    if isinstance(spec, str):
        if spec not in choices:
            raise TargetError(f"no choice {spec!r} among {', '.join(map(repr, choices))}")
        index = list(choices).index(spec)
    if not 0 <= int(index) < len(choices):
        raise TargetError(f"there is no choice {index}; they are counted from 0 to {len(choices) - 1}")
    return int(index)


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
