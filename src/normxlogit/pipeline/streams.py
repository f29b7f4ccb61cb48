"""A stream of inputs: read, explained and forgotten in chunks, so that memory does not grow with their number."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from ..errors import InputError, NormXLogitError
from ..inputs.texts import positive_integer
from ..results.attribution import Attribution
from ..results.collection import Attributions
from .by_halves import outcomes, with_unexplained

CHUNK = 256
"""Inputs that are read at a time by default: enough to sort them by length into full batches."""

Explain = Callable[[list[Any]], Any]
"""Explains several inputs, as a call of the explainer does."""


def checked_stream(inputs: Any, chunk_size: int, targets: Any) -> Iterator[Any]:
    """Return an iterator over the inputs of a stream.

    Args:
        inputs: What the caller gave.
        chunk_size: Inputs that are read at a time.
        targets: The caller's targets of single inputs, which a stream does not take.

    Raises:
        InputError: If this is a single input, or a table; or if the settings are none of a stream.
    """
    # A tuple is a pair of texts, and a mapping a prompt or a table: both would be iterated over as something else.
    if isinstance(inputs, str | bytes | tuple | Mapping) or not isinstance(inputs, Iterable):
        raise InputError(
            f"expected an iterable of inputs, got one {type(inputs).__name__}: pass [input] or an iterator"
        )
    if hasattr(inputs, "columns"):  # a data frame, which is iterated over by the names of its columns
        raise InputError(f"expected an iterable of inputs, got a {type(inputs).__name__}: pass its column of texts")
    positive_integer(chunk_size, "chunk_size")
    if targets is not None:
        raise InputError("a stream takes one target= for all inputs; targets= belongs to a call with a list")
    return iter(inputs)


def explained_stream(explain: Explain, inputs: Iterator[Any], chunk_size: int) -> Iterator[Attribution]:
    """Yield the attribution of each input, in their order.

    Args:
        explain: Explains several inputs.
        inputs: The inputs.
        chunk_size: How many of them are read and explained at a time.

    Raises:
        NormXLogitError: As `explain` does, with the numbers of the inputs in the stream.
    """
    start = 0  # of the chunk in the stream
    while chunk := list(islice(inputs, chunk_size)):
        try:
            yield from _of_several(explain(chunk))
        except NormXLogitError as error:
            if start == 0:  # the numbers of inputs in the message are those in the stream
                raise
            end = start + len(chunk) - 1
            raise type(error)(f"inputs {start} to {end} of the stream, counted from {start}: {error}") from None
        start += len(chunk)


def kept_stream(explain: Explain, inputs: Iterator[Any], chunk_size: int) -> Iterator[Any]:
    """Yield what `explained_stream` does, with an `Unexplained` in the place of an input that cannot be explained.

    Raises:
        NormXLogitError: If none of the first inputs can be explained, the error of the first one; if the model does not
            support the call.
    """
    is_first_chunk = True  # if all of it fails, the call itself is wrong, and not its inputs
    while chunk := list(islice(inputs, chunk_size)):
        results_or_errors = outcomes(lambda some_inputs: _of_several(explain(some_inputs)), chunk)
        yield from with_unexplained(chunk, results_or_errors, all_may_fail=not is_first_chunk)
        is_first_chunk = False


def _of_several(results: Any) -> Iterable[Attribution]:
    """Return the results of several inputs; refuse those of a single one, which the items together were taken for."""
    if not isinstance(results, Attributions):
        raise InputError("the items of the stream are parts of one input; each must be an input, such as a text")
    return results
