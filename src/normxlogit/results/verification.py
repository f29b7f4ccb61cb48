"""Verification of explanations: the model's answers without parts of its input."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ..extending import named_once, registered
from .storage.schema import Fields, Indices, Number, Strings, abbreviated, require
from .targets import Prediction, prediction_text
from .units.characters import shortened, visible

Quantity = Literal["probability", "value", "cosine", "log-probability", "difference"]
"""The measured quantity: the probability of the explained answer, a regression value, a cosine, nats, or the difference
of one of these between two models."""

RemovedUnit = str
"""What a removed part is called: one of `REMOVED_UNITS`, or what the class of a medium calls its own."""

RemovedBy = str
"""How a part is removed: one of `REMOVED_BY`, or as the class of a medium says."""

REMOVED_UNITS = frozenset(("word", "token", "sentence", "paragraph", "message", "source", "part"))
"""The removed parts of texts; "part" if there are several kinds, or a caller named spans."""

REMOVED_BY = frozenset(("deleted", "masked", "removed"))
"""How parts of texts are removed; "removed" where parts of several kinds are, each in its way."""

LEAST_LOSS = 1.0
"""A sentence of an answer uses a source if it loses so many nats without it."""

MOST_TIMES = 1e6
"""The largest factor of a likelihood that is written; larger ones say no more."""


MOST_NAMED = 6
"""Most units that a sentence names."""

LONGEST = 60
"""Most characters of a unit that a sentence names."""


class Removal(NamedTuple):
    """The model's answer without some units of its input.

    Attributes:
        units: The text of each unit that was removed; none for the whole input.
        tokens: Indices of their tokens.
        prediction: What the model predicts without them; None if it predicts nothing, as of a cosine.
        value: The measured quantity without them, `original` for the whole input.
        changed: Whether the prediction is another than for the whole input.
        values: Of a cited answer the log-probability of each of its sentences, whose sum is `value`.
    """

    units: Strings
    tokens: Indices
    prediction: Prediction | None
    value: Number
    changed: bool
    quantity: Quantity
    original: Number
    values: tuple[Number, ...] = ()

    def __str__(self) -> str:
        return removal_text(self)


@dataclass(frozen=True)
class Verification:
    """The answers of the model without some units: one at a time, and together.

    Attributes:
        target: The explained target, whose probability (or value) is measured.
        quantity: The kind of quantity in each removal's `value`.
        unit: The kind of removed units.
        removed_by: What happens to them: words are "deleted", or "masked" where a mask token takes their place; regions
            of a picture are "replaced" by the mean of what surrounds them, moments of a sound "silenced"; "removed"
            where parts of several kinds are, each in its way.
        original: The answer to the whole input.
        single: The answer without each of the n units, in the order of their scores.
        together: The answer without all n of them; of a cited answer without all sources, NaN if the prompt has
            nothing else.
        smallest: The smallest set that was found whose removal changes the prediction (of several labels at once:
            brings the explained one's probability across a half), and none of whose units can be put back without
            restoring it; None if no set was found, and for predictions that are values.
        control: The answer without as many other units as `smallest` has (or `together`, without one), drawn at
            random; None if there are no others.
        named: Whether the caller named the n units; otherwise they are those of the highest scores.
    """

    target: str
    quantity: Quantity
    unit: RemovedUnit
    removed_by: RemovedBy
    original: Removal
    single: tuple[Removal, ...]
    together: Removal
    smallest: Removal | None = None
    control: Removal | None = None
    named: bool = False

    def __str__(self) -> str:
        return verdict(self)

    def without(self, token: int) -> Removal | None:
        """Return the removal of the unit that holds a token; None if it was not removed by itself."""
        return next((removal for removal in self.single if token in removal.tokens), None)

    def loss(self, unit: int) -> float | None:
        """Return the drop of the measured quantity without a unit, by its index; None if it was not removed alone."""
        removal = next((removal for removal in self.single if removal.tokens == (unit,)), None)
        return None if removal is None else self.original.value - removal.value

    def text_row(self) -> Fields:
        """Return the cells for a table of texts: the removed units, the answer without them, and the control."""
        removal, control = self.smallest or self.together, self.control
        return {
            "removed": ", ".join(removal.units),
            "changed": removal.changed,
            "prediction_without": _predicted_label(removal),
            "value_without": removal.value,
            "prediction_without_others": _predicted_label(control),
            "value_without_others": None if control is None else control.value,
        }

    def validate(self, tokens: int) -> None:
        """Raise ValueError if a removal does not fit an input of some tokens."""
        of_media = parts_of_media()
        _require_known("unit", self.unit, {*REMOVED_UNITS, *of_media})
        _require_known("removed_by", self.removed_by, {*REMOVED_BY, *of_media.values()})
        # `smallest` and `control` may be None.
        for removal in filter(None, (self.original, *self.single, self.together, self.smallest, self.control)):
            require(all(token < tokens for token in removal.tokens), "verified: a token that is not there")
            require(bool(removal.units) == bool(removal.tokens), "verified: units without tokens")


def _require_known(field: str, value: str, known: set[str]) -> None:
    """Raise ValueError if a field has a value that neither this package nor an extension has."""
    require(value in known, f"verified, {field}: {abbreviated(value)} is of no extension that is installed")


def _predicted_label(removal: Removal | None) -> str | None:
    """Return what is predicted without some units; None if nothing is, or no units were removed."""
    prediction = None if removal is None else removal.prediction
    return None if prediction is None else prediction.label


def parts_of_media() -> dict[RemovedUnit, RemovedBy]:
    """Return what removable parts of media are called, each with how they are removed."""
    media = registered("media").values()
    # Name, way of removal and module, which an error names where two have one name.
    return named_once("removed units", [(*medium.removed_unit, medium.__module__) for medium in media])


def likelihood_text(nats: float) -> str:
    """Return a change of a log-probability as how many times (its exponential) likelier or less likely a text is."""
    is_over = abs(nats) >= math.log(MOST_TIMES)
    times = MOST_TIMES if is_over else math.exp(abs(nats))
    two_digits = f"{times:.1f}" if times < 10 else f"{float(f'{times:.2g}'):,.0f}"  # as in 2.4, 35 and 1,200
    if two_digits == "1.0":
        return "as likely"
    over = "over " if is_over else ""
    return f"{over}{two_digits} times {'likelier' if nats > 0 else 'less likely'}"


def verdict(verified: Verification | None) -> str:
    """Return sentences on the answers without the units of the highest scores; empty without a verification."""
    if verified is None:
        return ""
    removal, control = verified.smallest or verified.together, verified.control
    has_label = verified.original.prediction is not None and verified.quantity != "value"
    still = "still " if has_label and verified.smallest is None else ""  # no set was found that changes the label
    text = f"Without {names_of(verified, removal)}: {still}{answer_text(removal, verified)}{_with_all(removal)}."
    if control is None:
        return text
    units = f"{verified.unit}{'s' if len(control.units) > 1 else ''}"
    return f"{text} Without {len(control.units)} other {units}: {answer_text(control, verified)}."


def answer_text(removal: Removal, verified: Verification | None = None) -> str:
    """Return an answer without units, with the probability of the explained target if that is not the prediction.

    Args:
        removal: The answer without some units.
        verified: The verification that it is of; None to leave out the explained target.
    """
    value, prediction = removal.value, removal.prediction
    if removal.quantity == "difference":  # of the answers of two models
        label = f"{prediction.label}, " if prediction else ""
        return f"{label}difference {value:+.2f}"
    if removal.quantity == "log-probability":
        return likelihood_text(value - removal.original)
    if prediction is None or removal.quantity == "cosine":
        return f"{value:.3f}"
    text = prediction_text(prediction)
    if verified is None or removal.quantity != "probability":
        return text
    original = verified.original.prediction
    # A target that is the answer, to the whole input or to this one, is not told beside it.
    is_explained = original is None or verified.target in (original.label, prediction.label)
    return text if is_explained else f"{text} ({verified.target}: {100 * value:.1f}%)"


def _with_all(removal: Removal) -> str:
    """Return the measured quantity for the whole input, in brackets; empty where the answer says how it changes."""
    return f" ({removal.original:.3g} with all)" if removal.quantity in ("value", "cosine", "difference") else ""


def removal_text(removal: Removal) -> str:
    """Return the units of a removal, and what the model predicts without them, or how the measured value changes."""
    answer = f"{answer_text(removal)}{_with_all(removal)}"
    if removal.quantity == "cosine":
        verb = "falls" if removal.value < removal.original else "rises"
        answer = f"the similarity {verb} from {removal.original:.2f} to {removal.value:.2f}"
    return f"Without {_listed(removal.units, 'part')}: {answer}."


def names_of(verified: Verification, removal: Removal) -> str:
    """Return the units of a removal as a list in a sentence.

    Args:
        verified: The verification that it is of.
        removal: The answer without some units.
    """
    if removal.values and removal is verified.together:
        return "any of the sources"  # of a cited answer
    if verified.smallest is None and len(removal.units) > 1 and not verified.named:
        return f"the {len(removal.units)} {verified.unit}s of the highest scores"
    return _listed(removal.units, verified.unit)


def _listed(units: Sequence[str], unit: str) -> str:
    """Return units, each a word, region or other `unit`, as a list in a sentence.

    Args:
        units: The texts of the units; of parts of media their places.
        unit: What one of them is called, as in `Verification.unit`.
    """
    if not units:
        return "nothing"
    if len(units) > MOST_NAMED:
        return f"{len(units)} {unit}s"
    if unit in REMOVED_UNITS:
        names = [f'"{shortened(visible(text), LONGEST)}"' for text in units]
    else:  # parts of media, which are called by their places
        names = [f"{unit} {place}" for place in units]
    *earlier_names, last_name = names
    return f"{', '.join(earlier_names)} and {last_name}" if earlier_names else last_name
