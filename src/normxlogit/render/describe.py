"""A result in words: what the model answered, what is explained and how."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from ..errors import MethodError
from ..methods.registry import describe
from ..results.attribution import Attribution, prediction_of
from ..results.storage.schema import check, setting_text
from ..results.targets import Prediction
from ..results.units.characters import one_line, visible
from .blocks import Header
from .layout import UNKNOWN

LENGTH = 160
"""Characters of a text in a table or heading."""


@dataclass(frozen=True)
class Facts:
    """The header and the legend in words.

    Attributes:
        prediction: The model's answer, with its probability or value.
        method: The method with the settings that differ from its defaults.
        positive: What a positive score means.
        negative: What a negative score means; None for methods without a sign.
        notes: What the reader should know.
    """

    prediction: str
    target: str
    method: str
    model: str
    positive: str
    negative: str | None
    notes: tuple[str, ...]

    def header(self, cost: str = "", tested: str = "") -> Header:
        """Return them as a block."""
        rows = [("explained", self.target), ("method", self.method), ("model", self.model)]
        return Header(self.prediction, rows + ([("cost", cost)] if cost else []), self.notes, tested)


def model_text(name: str) -> str:
    """Return a model's name; of a local folder its last part, for the rest of the path says nothing of the model."""
    path = PurePath(name)
    local = path.is_absolute() or name.startswith((".", "~")) or len(path.parts) > 2  # names on the hub have two parts
    return path.name or name if local else name


def facts(a: Attribution) -> Facts:
    """Return what a result holds, in words."""
    names, first = [visible(target.name) for target in a.targets], a.targets[0]
    explained = names[0] if len(names) == 1 else f"the {'token' if first.kind == 'token' else 'label'}"
    target = ", ".join(names)
    if first.kind in ("value", "cosine"):
        positive, negative = f"raises {explained}", f"lowers {explained}"
    else:
        positive, negative = f"for {explained}", f"against {explained}"
    if first.contrast is not None:
        contrast = visible(first.contrast)
        target, negative = f"{target} rather than {contrast}", f"for {contrast}"
    positions = {target.position for target in a.targets}
    if len(positions) == 1 and first.position is not None and first.position < len(a.tokens):
        target += f", at position {first.position} ({visible(a.tokens[first.position])})"
    prediction = prediction_of(a)
    return Facts(
        prediction="" if prediction is None else prediction_text(prediction),
        target=target,
        method=method_text(a.method, a.settings),
        model=model_text(a.model),
        positive=positive if a.signed else "importance",
        negative=negative if a.signed else None,
        notes=(*a.notes, *_unknown(a)),
    )


def method_text(name: str, settings: Mapping[str, Any]) -> str:
    """Return a method with the settings that differ from its defaults in brackets."""
    usual = _default_settings(name)
    changed_settings = ", ".join(
        f"{key}={setting_text(value)}" for key, value in settings.items() if key not in usual or usual[key] != value
    )
    return f"{name} ({changed_settings})" if changed_settings else name


def distinct_methods(methods: Sequence[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """Return headings of methods: names, with settings where one method occurs with several."""
    names = [name for name, _ in methods]
    return [name if names.count(name) == 1 else method_text(name, settings) for name, settings in methods]


def prediction_text(prediction: Prediction) -> str:
    """Return a prediction as "negative, 98.2%", or "score = 3.14" for regression."""
    label = visible(prediction.label)
    if prediction.probability is None:
        return f"{label} = {prediction.value:.4g}"
    return f"{label}, {100 * prediction.probability:.1f}%"


def shortened(text: str, length: int = LENGTH) -> str:
    """Return the beginning of a text on one line."""
    text = one_line(text)
    return text if len(text) <= length else text[: length - 1].rstrip() + "\N{HORIZONTAL ELLIPSIS}"


def _default_settings(name: str) -> Mapping[str, Any]:
    """Return a method's default settings as results hold them; none for a method that is not installed."""
    try:
        return {key: check(Any)(default) for key, default in describe(name).defaults.items()}
    except MethodError:
        return {}


def _unknown(a: Attribution) -> list[str]:
    """Return a note if the model read words that are not in its vocabulary."""
    text_tokens = [token for token, special in zip(a.tokens, a.special_tokens_mask, strict=True) if not special]
    unknown = [token for token in text_tokens if token in UNKNOWN]
    if not unknown or any("unknown to the tokenizer" in note for note in a.notes):
        return []
    count = "the only token" if len(text_tokens) == 1 else f"{len(unknown)} of {len(text_tokens)} tokens"
    return [f"not in the model's vocabulary: {count}, read as {unknown[0]}"]
