"""A call with several inputs of which some are wrong: all others have their results."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from ..errors import InputError, NormXLogitError, UnsupportedModelError
from ..inputs.texts import arrow_value, text_column
from ..model.task_model import TaskModel
from ..results.attribution import Attribution
from ..results.collection import Attributions
from ..results.unexplained import Unexplained
from .options import Options, Results

Input = TypeVar("Input")
Result = TypeVar("Result")


def outcomes(
    call: Callable[[list[Input]], Iterable[Result]], inputs: list[Input]
) -> Iterator[Result | NormXLogitError]:
    """Call a function with inputs together, and with each half where that fails, until those that fail stand alone.

    Args:
        call: What is called with some of the inputs; it returns a result for each.
        inputs: The inputs.

    Yields:
        For each input, in their order, its result, or the error of the call with this input alone.

    Raises:
        UnsupportedModelError: If the model does not support the call, which is no matter of a single input.
    """
    if not inputs:
        return
    try:
        results = list(call(inputs))
    except UnsupportedModelError:
        raise
    except NormXLogitError as error:
        if len(inputs) == 1:
            yield error
            return
        middle = (len(inputs) + 1) // 2
        yield from outcomes(call, inputs[:middle])
        yield from outcomes(call, inputs[middle:])
    else:
        yield from results


def reason_alone(error: NormXLogitError) -> str:
    """Return the message of an error without "input 0", the number that an input has which was explained alone."""
    without_place = re.sub(r"^input 0(,[^:]*)?: ", "", str(error))
    return without_place.replace("input 0 ", "the input ")


def keep_errors(model: TaskModel, inputs: Any, options: Options, explain: Callable[[Any, Options], Results]) -> Results:
    """Explain several texts, and say of those that cannot be explained what is wrong with them.

    Args:
        model: The model.
        inputs: What the caller gave.
        options: The options of the call.
        explain: Explains inputs under options: a single one, or a list of several, which may hold one.

    Raises:
        InputError: If these are not texts.
        NormXLogitError: If none of them can be explained, the error of the first.
    """
    texts = _several_texts(model, inputs)
    options = replace(options, on_error=None)
    if texts is None:  # a single one, whose error is raised
        return explain(inputs, options)
    options.check_count(len(texts))

    def explain_some(indices: list[int]) -> Iterable[Attribution]:
        results = explain([texts[index] for index in indices], options.of_some(indices))
        return [results] if isinstance(results, Attribution) else results  # of a list several: for type checkers

    results_or_errors = outcomes(explain_some, list(range(len(texts))))
    return Attributions(with_unexplained(texts, results_or_errors))


def _several_texts(model: TaskModel, inputs: Any) -> list[Any] | None:
    """Return the texts or pairs that a caller gave; None for a single one."""
    model.task.check_input(model, "one text")
    inputs = arrow_value(text_column(inputs))
    # A tuple is a pair; a mapping, as anything that is no container, is left to the call, which may refuse it.
    if isinstance(inputs, str | tuple | bytes | Mapping) or not isinstance(inputs, Iterable):
        return None
    texts = list(inputs)
    if any(isinstance(text, Mapping) for text in texts):
        raise InputError("on_error='keep' is for a list of texts or pairs, not of messages")
    return texts


def with_unexplained(inputs: list[Any], outcomes_of_inputs: Iterable[Any], *, all_may_fail: bool = False) -> list[Any]:
    """Return the outcomes of inputs with an `Unexplained` for each error.

    Args:
        inputs: The inputs.
        outcomes_of_inputs: For each of them a result, or an error, see `outcomes`.
        all_may_fail: Whether it is allowed that there is no result.

    Raises:
        NormXLogitError: The error of the first input, if there is no result.
    """
    of_inputs = list(outcomes_of_inputs)
    if inputs and not all_may_fail and all(isinstance(outcome, NormXLogitError) for outcome in of_inputs):
        raise of_inputs[0]
    return [
        _unexplained(model_input, outcome) if isinstance(outcome, NormXLogitError) else outcome
        for model_input, outcome in zip(inputs, of_inputs, strict=True)
    ]


def _unexplained(text: Any, error: NormXLogitError) -> Unexplained:
    """Return what stands in the place of the result of a text or pair, with what of it are strings."""
    is_pair = isinstance(text, tuple) and len(text) == 2
    first, second = text if is_pair else (text, None)
    return Unexplained(
        reason=reason_alone(error),
        text=first if isinstance(first, str) else None,
        text_pair=second if isinstance(second, str) else None,
    )
