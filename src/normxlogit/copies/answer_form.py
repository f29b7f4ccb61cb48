"""How a module is called, what it returns, and the logits of which a softmax or sigmoid made its answer.

They are the input of that operation, found by recording a pass, or computed from the probabilities.
"""

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from transformers import PreTrainedModel
from transformers.utils.generic import ModelOutput

from ..errors import InputError, UnsupportedModelError
from .clone import Forward, override_forward
from .run import Inputs, TensorInputs

Outputs = Literal["logits", "probabilities", "log-probabilities", "values"]
"""What the numbers that a module returns are."""

FieldKey = str | int | None
"""The name or index of a field in a module's output; None for an output that is the answer itself."""

SUM_TOLERANCE = 1e-4
"""How far from one the sum of probabilities may be, for half precision in the forward pass of a module."""

SHAPE_ONLY = frozenset([
    "__getitem__", "clone", "contiguous", "double", "flatten", "float", "reshape", "squeeze", "to", "type", "unsqueeze",
    "view",
])  # fmt: skip
"""Functions that leave the values of a tensor as they are."""


class _LogitsOfProbabilities(torch.autograd.Function):
    """The logits of probabilities; a node of its own, so that the frozen network refuses it by name.

    Exclusive outcomes have the logits log p; independent ones log p - log(1 - p), with the slope 1 / (p (1 - p)).
    """

    @staticmethod
    def forward(ctx: Any, probabilities: Tensor, independent: bool) -> Tensor:
        tiny = torch.finfo(probabilities.dtype).tiny
        positive = probabilities.clamp(min=tiny)
        complements = (1 - probabilities).clamp(min=tiny)
        ctx.save_for_backward(positive * complements if independent else positive)
        return positive.log() - complements.log() if independent else positive.log()

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, None]:
        (slope,) = ctx.saved_tensors
        return grad_outputs[0] / slope, None


class Normaliser(NamedTuple):
    """A function that makes probabilities or their logarithms of logits."""

    apply: Callable[[Tensor], Tensor]  # the function
    outputs: Outputs  # what it returns
    outcomes: Literal["exclusive", "independent"]  # whether one of these outcomes is true, or each by itself

    def logits(self, answer: Tensor) -> Tensor:
        """Return logits of which this function makes an answer."""
        is_independent = self.outcomes == "independent"
        if self.outputs == "log-probabilities":
            return answer - torch.log(-torch.expm1(answer)) if is_independent else answer
        return _LogitsOfProbabilities.apply(answer, is_independent)  # type: ignore[no-untyped-call]


NORMALISERS = {
    "softmax": Normaliser(partial(torch.softmax, dim=-1), "probabilities", "exclusive"),
    "log_softmax": Normaliser(partial(torch.log_softmax, dim=-1), "log-probabilities", "exclusive"),
    "sigmoid": Normaliser(torch.sigmoid, "probabilities", "independent"),
    "log_sigmoid": Normaliser(torch.nn.functional.logsigmoid, "log-probabilities", "independent"),
}
"""Functions that a forward pass may end in, by their names in torch."""


class _Recorded(NamedTuple):
    """A result of a normaliser, which is kept alive, so that its id is its own."""

    result: Tensor
    logits: Tensor  # what the normaliser was given, reshaped as the result
    normaliser: str


class _RecordedLogits(TorchFunctionMode):
    """Records the inputs of normalisers in a forward pass.

    What a module does with a normaliser's result before it returns it may only reshape it: the same is done to the
    logits.
    """

    def __init__(self) -> None:
        super().__init__()
        self._recorded: dict[int, _Recorded] = {}  # by the id of the result

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        options = kwargs or {}
        result = func(*args, **options)
        name = getattr(func, "__name__", "")
        source = args[0] if args else options.get("input")
        if not isinstance(result, Tensor) or not isinstance(source, Tensor) or result.ndim > 3:  # attention has four
            return result
        recorded = self.of(source)
        if name in NORMALISERS:
            self._recorded[id(result)] = _Recorded(result, source, name)
        elif name in SHAPE_ONLY and args and recorded is not None:
            logits = func(recorded.logits, *args[1:], **options)
            self._recorded[id(result)] = _Recorded(result, logits, recorded.normaliser)
        return result

    def of(self, answer: Tensor) -> _Recorded | None:
        """Return how an answer was made by a normaliser; None if it was not."""
        return self._recorded.get(id(answer))


@dataclass(frozen=True)
class AnswerForm:
    """Where a module's answer is in its output, and what it is."""

    keys: tuple[FieldKey, ...] = (None,)  # the field, or two for start and end logits, which are put side by side
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
        with _RecordedLogits() if self.recorded else nullcontext() as recorded:
            output = forward(*args, **inputs)
        fields = fields_of(output)
        if missing := [key for key in self.keys if key not in fields]:
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

    def _logits(self, answer: Tensor, recorded: _RecordedLogits | None) -> Tensor:
        """Return the logits of an answer: those that were recorded when they were normalised, or computed from it."""
        if self.normaliser is None:
            return answer
        entry = None if recorded is None else recorded.of(answer)
        return self.normaliser.logits(answer) if entry is None else entry.logits


@dataclass(frozen=True)
class ForwardSettings:
    """How a module is called and what it returns, as its owner says it."""

    outputs: Outputs | None = None  # what the numbers that it returns are; None to find out
    output_field: FieldKey = None  # the name or index of the field with the answer; None to find out
    input_names: Mapping[str, str] = field(default_factory=dict)  # its own names for the tokenizer's outputs
    extra_inputs: TensorInputs = field(default_factory=dict)  # further inputs, (1, ...), of texts without

    @property
    def describes_forward(self) -> bool:
        """Whether the owner says anything about the forward itself."""
        return self.outputs is not None or self.output_field is not None or bool(self.input_names)


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
    if {"start_logits", "end_logits"} <= fields.keys():
        return "start_logits", "end_logits"
    matrices = [key for key, value in fields.items() if value.ndim == 2]
    if extractive and len(matrices) == 2 and fields[matrices[0]].shape == fields[matrices[1]].shape:
        return tuple(matrices)
    if "logits" in fields:
        return ("logits",)
    return tuple(fields) if len(fields) == 1 else ()


def answer_form(
    run: Callable[[int], Any], keys: tuple[FieldKey, ...], declared: Outputs | None, probes: int
) -> AnswerForm:
    """Return what a module returns: found by the operation that its answer comes from, or by the numbers.

    Probabilities are within 0 and 1 and sum to one. Of a single number, or another sum, only the operation tells.

    Args:
        run: Returns the module's output for an input, by its number.
        keys: The field of the answer, or the two.
        declared: What the module's owner says that the numbers are; None if nothing was said.
        probes: How many inputs there are.

    Raises:
        InputError: If the numbers are not what was declared.
    """
    if declared in ("logits", "values"):
        return AnswerForm(keys, declared=declared)
    answers: list[Tensor] = []
    recorded: list[_Recorded | None] = []
    for number in range(probes):
        with _RecordedLogits() as recording:
            output = run(number)
        answers_to_probe = [fields_of(output)[key] for key in keys]
        answers += answers_to_probe
        recorded += map(recording.of, answers_to_probe)
    recorded_normaliser = _recorded_normaliser(answers, recorded)
    normaliser = recorded_normaliser or _normaliser_by_numbers(answers, declared)
    if declared is not None and (normaliser is None or normaliser.outputs != declared):
        numbers = torch.cat([answer.flatten() for answer in answers])
        raise InputError(
            f"outputs={declared!r}, and the module returned numbers from {numbers.min():.3g} to {numbers.max():.3g}"
            + ("" if normaliser is None else f", which are {normaliser.outputs}")
        )
    return AnswerForm(keys, normaliser, recorded_normaliser is not None, declared)


def _recorded_normaliser(answers: Sequence[Tensor], recorded: Sequence[_Recorded | None]) -> Normaliser | None:
    """Return the function that made all answers, each of its recorded logits; None if no single one did."""
    normaliser = None
    for answer, entry in zip(answers, recorded, strict=True):
        if entry is None or normaliser not in (None, NORMALISERS[entry.normaliser]):
            return None
        normaliser = NORMALISERS[entry.normaliser]
        if not torch.allclose(normaliser.apply(entry.logits).to(answer), answer, atol=1e-6):
            return None
    return normaliser


def _normaliser_by_numbers(answers: Sequence[Tensor], declared: Outputs | None) -> Normaliser | None:
    """Return what makes answers of logits, by the numbers alone; None for logits.

    Numbers within 0 and 1 alone may be anything: without a declaration, only those with the sum one are probabilities.
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


# --- how a module is called -------------------------------------------------------------------------------------------

IDS = "input_ids"
"""The name of token ids."""

Arguments = Callable[[Inputs], dict[str, Any]]
"""Returns the arguments of a forward for the inputs of a transformers model."""


def arguments_of(model: nn.Module, settings: ForwardSettings, main_input: str = IDS) -> Arguments:
    """Return a function that makes the arguments of a forward of what a model of transformers is given.

    The main input gets the name that the forward has for it, and inputs for which it has no name are left out.

    Args:
        model: The module.
        settings: How its owner says that it is called.
        main_input: The name of the input that is explained, token ids or what is read instead of them.

    Raises:
        InputError: If the settings name an argument that the forward does not have.
        UnsupportedModelError: If a plain module needs an argument that nothing gives.
    """
    names, takes_any = forward_arguments(model)
    class_name = type(model).__name__
    is_plain = not isinstance(model, PreTrainedModel)
    named_inputs = {*settings.input_names.values(), *settings.extra_inputs}
    if not takes_any:
        _check_known_arguments(class_name, names, named_inputs)
    name_of = {main_input: _name_of_main(main_input, names, named_inputs), **settings.input_names}
    if is_plain:
        _check_needed_arguments(model, names, {*named_inputs, name_of[main_input]})

    def arguments(inputs: Inputs) -> dict[str, Any]:
        absent = sorted(settings.extra_inputs.keys() - inputs.keys())
        if absent:
            raise UnsupportedModelError(f"{class_name} cannot be called here without its further input {absent[0]!r}")
        renamed = {name_of.get(name, name): value for name, value in inputs.items()}
        return renamed if takes_any and not is_plain else _known_arguments(renamed, names, takes_any=takes_any)

    return arguments


def _known_arguments(inputs: Inputs, names: Sequence[str], *, takes_any: bool) -> dict[str, Any]:
    """Return the inputs for which a forward has a name; tensors of any name if it takes further arguments.

    A plain module with **kwargs is not given switches of transformers, such as `return_dict`.
    """
    return {name: value for name, value in inputs.items() if name in names or (takes_any and isinstance(value, Tensor))}


def _check_known_arguments(class_name: str, names: Sequence[str], named_inputs: set[str]) -> None:
    """Refuse settings that name an argument that a forward does not have."""
    unknown = sorted(named_inputs.difference(names))
    if unknown:
        raise InputError(f"the forward of {class_name} has no argument {unknown[0]!r}, but {', '.join(names)}")


def _name_of_main(main_input: str, names: Sequence[str], named_inputs: Collection[str]) -> str:
    """Return the argument that is given the main input: that of its name, or the first that gets no other input."""
    if main_input in names:
        return main_input
    return next((name for name in names if name not in named_inputs), main_input)


def _check_needed_arguments(model: nn.Module, names: Sequence[str], given_names: set[str]) -> None:
    """Refuse a module whose forward needs an argument that nothing gives."""
    parameters = inspect.signature(model.forward).parameters
    needed = {name for name in names if parameters[name].default is inspect.Parameter.empty}
    missing = sorted(needed - given_names - {"attention_mask", "token_type_ids", "position_ids"})
    if missing:
        raise UnsupportedModelError(
            f"the forward of {type(model).__name__} needs {', '.join(missing)}: input_names={{'attention_mask': "
            f"{missing[0]!r}}} says that it is what the tokenizer calls so, extra_inputs={{{missing[0]!r}: ...}} gives "
            "something else"
        )


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
        return ModelOutput(
            {"logits": logits} if is_plain or not isinstance(output, Mapping) else {**output, "logits": logits}
        )

    override_forward(model, forward)


def forward_arguments(model: nn.Module) -> tuple[list[str], bool]:
    """Return the names of a forward's arguments, and whether it takes any others."""
    parameters = inspect.signature(model.forward).parameters.values()
    by_keyword = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    argument_names = [parameter.name for parameter in parameters if parameter.kind in by_keyword]
    return argument_names, any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
