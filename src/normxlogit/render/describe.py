"""Descriptions of a result as text: the prediction, the target and the method."""

from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from ..errors import MethodError
from ..methods.registry import describe
from ..results.attribution import Attribution
from ..results.storage.schema import check, setting_text
from ..results.targets import Prediction, prediction_of
from ..results.units.characters import one_line, visible
from .blocks import Header

LENGTH = 160
"""Characters of a text in a table or heading."""

UNKNOWN = ("[UNK]", "<unk>", "<UNK>")
"""Tokens for words that are not in the vocabulary."""


def header(results: Sequence[Attribution], costs: Sequence[str] = (), tested: str = "") -> Header:
    """Return the header: the prediction, the explained target and the methods.

    Args:
        results: A result, or those of several methods for one text and target.
        costs: The cost of each method; empty for none.
        tested: Sentences on the model's answers without parts of the input.
    """
    first, methods, known_costs = results[0], [method_of(a) for a in results], [cost for cost in costs if cost]
    if len(results) > 1 and known_costs:
        methods = [f"{name}: {cost}" if cost else name for name, cost in zip(methods, costs, strict=True)]
    facts = [("explained", meanings(first)[0]), *(("method", name) for name in methods)]
    facts += [("model", model_text(first.model)), *(("cost", cost) for cost in known_costs if len(results) == 1)]
    prediction = prediction_of(first)
    notes = [note for a in results for note in a.notes]
    return Header("" if prediction is None else prediction_text(prediction), facts, list(dict.fromkeys(notes)), tested)


def meanings(a: Attribution) -> tuple[str, str, str | None]:
    """Return the explained target, and the meanings of positive and negative scores, None for unsigned methods."""
    first, names = a.targets[0], [visible(target.name) for target in a.targets]
    target, against = ", ".join(names), "against it"
    explained = names[0] if len(names) == 1 else f"the {'token' if first.kind == 'token' else 'label'}"
    if a.generated:
        itself = all(t.id == token.id for t, token in zip(a.targets, a.generated, strict=True))
        explained = "the token" if itself else names[0] if len(set(names)) == 1 else "the tokens asked for"
        target = "each generated token" if itself else explained
    else:
        against = f"against {explained}"
    positive = f"for {explained}"
    if first.kind in ("value", "cosine"):
        positive, against = f"raises {explained}", f"lowers {explained}"
    if first.contrast is not None:
        target, against = f"{target} rather than {visible(first.contrast)}", f"for {visible(first.contrast)}"
    if a.generated and a.layers is not None:
        target += f", layer {a.layers[-1]} shown"
    one_position = len({t.position for t in a.targets}) == 1 and not a.generated
    if one_position and first.position is not None and first.position < len(a.tokens):
        target += f", at position {first.position} ({visible(a.tokens[first.position])})"
    return target, positive if a.signed else "importance", against if a.signed else None


def score_label(a: Attribution) -> str:
    """Return the label of an axis of scores."""
    _, positive, negative = meanings(a)
    return f"score: {positive}" + (f" (+), {negative} (−)" if negative else "")


def model_text(name: str) -> str:
    """Return a model's name; for a local folder, the last part of its path."""
    path = PurePath(name)
    local = path.is_absolute() or name.startswith((".", "~")) or len(path.parts) > 2  # names on the hub have two parts
    return path.name or name if local else name


def method_of(a: Attribution) -> str:
    """Return a result's method with the settings that differ from its defaults in brackets."""
    try:  # the defaults in the form of stored settings; a method that is not installed has none
        defaults = {key: check(Any)(default) for key, default in describe(a.method).defaults.items()}
    except MethodError:
        defaults = {}
    changed = {key: value for key, value in a.settings.items() if key not in defaults or defaults[key] != value}
    settings = ", ".join(f"{key}={setting_text(value)}" for key, value in changed.items())
    return f"{a.method} ({settings})" if settings else a.method


def distinct_methods(results: Sequence[Attribution]) -> list[str]:
    """Return headings of methods: names, with settings where one method occurs with several."""
    names = [a.method for a in results]
    return [a.method if names.count(a.method) == 1 else method_of(a) for a in results]


def prediction_text(prediction: Prediction) -> str:
    """Return a prediction as "negative, 98.2%", or "score = 3.14" for regression."""
    label = visible(prediction.label)
    return f"{label}{' =' if prediction.probability is None else ','} {answer_number(prediction)}"


def answer_number(prediction: Prediction) -> str:
    """Return the probability of a prediction, or the value of a regression."""
    return f"{prediction.value:.4g}" if prediction.probability is None else f"{100 * prediction.probability:.1f}%"


def shortened(text: str, length: int = LENGTH) -> str:
    """Return the beginning of a text on one line."""
    text = one_line(text)
    return text if len(text) <= length else text[: length - 1].rstrip() + "\N{HORIZONTAL ELLIPSIS}"
