"""Checks that the fields of an attribution belong together, as in a file that was changed by hand."""

import math
from typing import TYPE_CHECKING

from .storage.schema import require

if TYPE_CHECKING:
    from .attribution import Attribution


def check_scores(a: "Attribution") -> None:
    """Check the axes of all scores.

    Raises:
        ValueError: If they do not fit the targets, the layers and the units.
    """
    unit_count = len(a.units)
    target_count = len(a.targets)
    require(target_count > 0 and unit_count > 0, "targets, units: none")
    require({*a.units.sequence} <= {None, 0, 1}, "sequence: neither 0 nor 1")
    shape = _checked_shape(a)
    if a.has_target_axis:
        lengths = {len(value) for value in a.diagnostics.values() if isinstance(value, tuple)}
        require(lengths <= {target_count}, "diagnostics: not one for each target")
    for constants in (a.bias, a.sink):
        fits = constants is None or constants.shape == a._bias_shape(shape)
        require(fits, "bias, sink: not of the scores' shape")
    require(max(a.sinks, default=0) < unit_count, "sinks: no such unit")
    require((a.sink is not None) == bool(a.sinks), "sinks: without what they contribute, or the reverse")


def _checked_shape(a: "Attribution") -> tuple[int, ...]:
    """Return the shape of the scores without the last axis, that of units: (K, L), (K,), (L,) or ().

    Raises:
        ValueError: If the scores have other axes, or not as many entries as there are targets, layers and units.
    """
    layer_axis = () if a.layers is None else (len(a.layers),)
    is_of_one_target = len(a.targets) == 1 and a.scores.ndim == len(layer_axis) + 1  # and has no axis for it
    require(a.has_target_axis or is_of_one_target, "scores: not the axes of its targets and layers")
    shape = (len(a.targets), *layer_axis) if a.has_target_axis else layer_axis
    expected = (*shape, len(a.units))
    require(a.scores.shape == expected and 0 not in shape, f"scores: not of shape {expected}")
    return shape


def check_answer(a: "Attribution") -> None:
    """Check the predictions and the generated tokens.

    Raises:
        ValueError: If they are more or fewer than the targets or tokens.
    """
    fits = a.token_predictions is None or len(a.token_predictions) == a.text_units
    require(fits, "token_predictions: not one for each token")
    if a.prompt_tokens is not None:
        generated = a.units.kind.count("token") - a.prompt_tokens
        # Parts of an answer keep no generated tokens, and their units may still be tokens.
        fits = generated == len(a.generated) if a.generated else generated >= 0
        require(fits, "prompt_tokens: not the number before the generated ones")
    if a.completion is not None:
        fits = {len(a.predictions), len(a.generated)} <= {0, len(a.targets)}  # none are known, or those of all
        require(fits, "predictions, generated: not one for each target")


def check_spans(a: "Attribution") -> None:
    """Check the spans of units, messages and targets.

    Raises:
        ValueError: If one is not inside its text.
    """
    lengths = [math.inf if text is None else len(text) for text in (a.text, a.text_pair)]
    require(len(a.completion or "") <= lengths[0], "completion: longer than the text")
    for (start, end), sequence in zip(a.offsets or (), a.units.sequence, strict=False):  # units of media are last
        require(start <= end <= lengths[sequence or 0], "spans: outside the text")
    spans = [(message.start, message.end) for message in a.messages or ()]
    for start, end in (*spans, *a.target_spans):
        require(start <= end <= lengths[0], "a span: outside the text")
