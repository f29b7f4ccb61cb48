"""What a module returns: the field that is the answer, and the logits of which a softmax or sigmoid made it.

They are the input of that operation, found by recording a pass, or computed from the probabilities.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.utils.generic import ModelOutput

from ..errors import InputError, UnsupportedModelError
from .clone import Forward, override_forward
from .forward_arguments import Arguments, FieldKey
from .normalisers import NORMALISERS, Normaliser, Outputs, RecordedLogits, RecordedResult

SUM_TOLERANCE = 1e-4
"""How far from one the sum of probabilities may be, for half precision in the forward pass of a module."""


@dataclass(frozen=True)
class AnswerForm:
    """Where a module's answer is in its output, and what it is."""

    keys: tuple[FieldKey, ...] = (None,)  # its field, or those of start and end logits, which are put side by side
    normaliser: Normaliser | None = None  # what makes the answer of logits; None if it holds logits or values
    recorded: bool = False  # whether the logits are the recorded input of the normaliser; otherwise they are computed
    declared: Outputs | None = None  # what the module's owner says that the numbers are; None if nothing was said

    @property
    def note(self) -> tuple[str, ...]:
        """Return a note for results if the logits are not what the module returns."""
        if self.normaliser is None or self.declared is not None:
            return ()
        source = "the logits before its last operation" if self.recorded else "the logits that belong to them"
        return (
            f"the module returns {self.normaliser.outputs}: {source} are explained (outputs='logits' takes what it "
            "returns for logits)",
        )

    def call(self, forward: Forward, *args: Any, **inputs: Any) -> tuple[Any, Tensor]:
        """Call a module's forward, and return its output and the logits, (B, C) or (B, T, C)."""
        with RecordedLogits() if self.recorded else nullcontext() as recorded:
            output = forward(*args, **inputs)
        fields = fields_of(output)
        # The keys were found with short inputs: for others a module may return something else.
        if missing := [key for key in self.keys if key not in fields]:  # None is the key of a single tensor
            raise UnsupportedModelError(
                f"the module returns {_described_fields(fields)}, and not {missing[0] or 'one tensor'}; where `adapt` "
                "of a task changes what it returns, name the field in `Outputs.field` instead"
            )
        logits = [self._logits(fields[key], recorded) for key in self.keys]
        if len(logits) > 1:
            return output, torch.stack(logits, -1)  # (B, T, 2)
        return output, _with_classes(logits[0])

    def returned(self, logits: Tensor) -> Tensor:
        """Return the module's own answer for logits."""
        return logits if self.normaliser is None else self.normaliser.apply(logits)

    def _logits(self, answer: Tensor, recorded: RecordedLogits | None) -> Tensor:
        """Return the logits of an answer: those that were recorded when they were normalised, or computed from it."""
        if self.normaliser is None:
            return answer
        entry = None if recorded is None else recorded.of(answer)
        return self.normaliser.logits(answer) if entry is None else entry.logits


def fields_of(output: Any) -> Mapping[FieldKey, Any]:
    """Return the fields of a module's output, by their names, or by their places; by None what is a single value.

    Args:
        output: A mapping, a tuple (named or not), a list, a tensor, or an object with attributes.
    """
    if isinstance(output, Mapping):
        return output
    if isinstance(output, tuple | list):
        keys = getattr(output, "_fields", range(len(output)))
        return dict(zip(keys, output, strict=True))
    if isinstance(output, Tensor) or not hasattr(output, "__dict__"):
        return {None: output}
    return vars(output)


def answer_keys(
    output: Any, named: FieldKey, name: str, *, extractive: bool, fits: Callable[[Tensor], bool]
) -> tuple[FieldKey, ...]:
    """Return which field of a module's output is the answer, or which two.

    Args:
        output: What the module returned.
        named: The field that its owner names; None if none is named.
        name: The class of the module, for errors.
        extractive: Whether the task reads two fields, the logits of start and end.
        fits: Whether the task can read a tensor, (B, C) or (B, T, C).

    Raises:
        InputError: If there is no field as named.
        UnsupportedModelError: If no field can be the answer, or it is not clear which.
    """
    fields = {key: value for key, value in fields_of(output).items() if _may_be_answer(value)}
    if named is not None and named not in fields:
        returned = _described_fields(fields) or _described(output)
        raise InputError(f"{name} returns no {named!r} of one to three axes, but {returned}")
    keys = _usual_keys(fields, extractive) if named is None else (named,)
    if keys:
        return keys
    if not fields:
        raise UnsupportedModelError(
            f"{name} returns {_described(output)}; its logits must be a tensor of shape (texts, classes) or (texts, "
            "tokens, classes), alone, in a tuple, or in a mapping"
        )
    return (_fitting_key(fields, fits, name),)


def _fitting_key(fields: Mapping[FieldKey, Tensor], fits: Callable[[Tensor], bool], name: str) -> FieldKey:
    """Return the only field of several that a task can read; refuse to choose among more."""
    fitting = [key for key, value in fields.items() if fits(_with_classes(value))]
    if len(fitting) == 1:
        return fitting[0]
    # The field in the advice is an example: the first that fits, or the first of all.
    raise UnsupportedModelError(
        f"{name} returns several tensors, and which of them is the answer is not clear: {_described_fields(fields)}; "
        f"name it: output_field={next(iter(fitting or fields))!r}"
    )


def _with_classes(logits: Tensor) -> Tensor:
    """Return logits with an axis of classes: (B,) becomes (B, 1)."""
    return logits[:, None] if logits.ndim == 1 else logits


def _described_fields(fields: Mapping[FieldKey, Tensor]) -> str:
    """Return the names and shapes of fields."""
    return ", ".join(f"{key!r} {tuple(value.shape)}" for key, value in fields.items())


def _may_be_answer(value: Any) -> bool:
    """Return whether a field of an output can hold logits, (B,), (B, C) or (B, T, C); a loss has no axes."""
    return isinstance(value, Tensor) and value.is_floating_point() and 1 <= value.ndim <= 3


def _usual_keys(fields: Mapping[FieldKey, Tensor], extractive: bool) -> tuple[FieldKey, ...]:
    """Return the fields that are the answer by their name, as two alike, or as the only one; () if none are."""
    # These names say what they are, whatever the task.
    if {"start_logits", "end_logits"} <= fields.keys():
        return "start_logits", "end_logits"
    shapes_of_matrices = {key: value.shape for key, value in fields.items() if value.ndim == 2}
    if extractive and len(shapes_of_matrices) == 2 and len(set(shapes_of_matrices.values())) == 1:
        return tuple(shapes_of_matrices)
    if "logits" in fields:
        return ("logits",)
    return tuple(fields) if len(fields) == 1 else ()


def answer_form(
    run: Callable[[int], Any], keys: tuple[FieldKey, ...], declared: Outputs | None, input_count: int
) -> AnswerForm:
    """Return what a module returns: found by the operation that its answer comes from, or by the numbers.

    Probabilities are within 0 and 1 and sum to one. Of a single number, or another sum, only the operation tells.

    Args:
        run: Runs the module on one of some inputs, by its index, and returns its output.
        keys: The field of the answer, or the two.
        declared: What the module's owner says that the numbers are; None if nothing was said.
        input_count: How many inputs there are.

    Raises:
        InputError: If the numbers are not what was declared.
    """
    # Nothing is to be found out: such numbers are explained as they are.
    if declared in ("logits", "values"):
        return AnswerForm(keys, declared=declared)
    answers: list[Tensor] = []
    recorded: list[RecordedResult | None] = []  # how each of the answers was made
    for index in range(input_count):
        with RecordedLogits() as recording:
            output = run(index)
        answers_to_input = [fields_of(output)[key] for key in keys]
        answers += answers_to_input
        recorded += map(recording.of, answers_to_input)
    recorded_normaliser = _recorded_normaliser(answers, recorded)
    normaliser = recorded_normaliser or _normaliser_by_numbers(answers, declared)
    if declared is not None and (normaliser is None or normaliser.outputs != declared):
        numbers = torch.cat([answer.flatten() for answer in answers])
        raise InputError(
            f"outputs={declared!r}, and the module returned numbers from {numbers.min():.3g} to {numbers.max():.3g}"
            + ("" if normaliser is None else f", which are {normaliser.outputs}")
        )
    return AnswerForm(keys, normaliser, recorded_normaliser is not None, declared)


def _recorded_normaliser(answers: Sequence[Tensor], recorded: Sequence[RecordedResult | None]) -> Normaliser | None:
    """Return the function that made all answers, each of its recorded logits; None if no single one did."""
    normaliser = None
    for answer, entry in zip(answers, recorded, strict=True):
        # No normaliser made this answer, or another one than that of the answers before.
        if entry is None or normaliser not in (None, NORMALISERS[entry.normaliser]):
            return None
        normaliser = NORMALISERS[entry.normaliser]
        # It may have been applied along another axis.
        if not torch.allclose(normaliser.apply(entry.logits).to(answer), answer, atol=1e-6):
            return None
    return normaliser


def _normaliser_by_numbers(answers: Sequence[Tensor], declared: Outputs | None) -> Normaliser | None:
    """Return what makes answers of logits, by the numbers alone; None for logits.

    Numbers within 0 and 1 alone may be anything: without a declaration, only those with the sum one are probabilities.

    Args:
        answers: The answers, of any shape.
        declared: What the module's owner says that the numbers are; None if nothing was said.
    """
    for normaliser in NORMALISERS.values():
        is_possible = normaliser.outcomes == "exclusive" if declared is None else normaliser.outputs == declared
        if is_possible and _are_returned_by(normaliser, answers):
            return normaliser
    return None


def _are_returned_by(normaliser: Normaliser, answers: Sequence[Tensor]) -> bool:
    """Return whether numbers can be the output of a normaliser: within 0 and 1, exclusive ones with the sum one."""
    are_logarithms = normaliser.outputs == "log-probabilities"
    probabilities = [answer.double().exp() if are_logarithms else answer for answer in answers]
    are_within = all(bool(((values >= 0) & (values <= 1 + SUM_TOLERANCE)).all()) for values in probabilities)
    if not are_within or normaliser.outcomes == "independent":
        return are_within
    # The sum over one class is the number itself, and says nothing.
    has_classes = probabilities[0].ndim > 1 and probabilities[0].shape[-1] > 1
    if not has_classes:
        return False
    sums = torch.cat([values.double().sum(-1).flatten() for values in probabilities])
    return bool(((sums - 1).abs() < SUM_TOLERANCE).all())


def _described(output: Any) -> str:
    """Return a description of the type of a module's output, with the shape of a tensor."""
    if isinstance(output, Tensor):
        return f"a tensor of shape {tuple(output.shape)} and type {str(output.dtype).removeprefix('torch.')}"
    return f"a {type(output).__name__}"


def adapt_forward(model: nn.Module, form: AnswerForm, arguments: Arguments) -> None:
    """Give a clone named inputs and an output with logits, as a transformers model has them.

    Args:
        model: A clone, which is changed.
        form: Where its answer is in its output, and what it is.
        arguments: Makes the arguments of its forward.
    """
    is_plain = not isinstance(model, PreTrainedModel)

    def forward(original: Forward, *args: Any, **inputs: Any) -> ModelOutput:
        named = {"input_ids": args[0], **inputs} if args else inputs
        output, logits = form.call(original, **arguments(named))
        # A plain module's other fields may mean anything, also under names of transformers: the logits alone are kept.
        return ModelOutput(
            {"logits": logits} if is_plain or not isinstance(output, Mapping) else {**output, "logits": logits}
        )

    override_forward(model, forward)
