"""A verification in words: the sentence above a text, and the answer beside each word."""

from collections.abc import Sequence

from ..results.attribution import Attribution
from ..results.units.characters import visible
from ..results.verification import Removal, Verification
from .blocks import Column, Table, cell
from .describe import prediction_text, shortened

NAMED = 6
"""Most units that a sentence names."""

LONGEST = 60
"""Characters of a unit in a sentence."""

WITHOUT = "without it"
"""The heading of the answers beside words."""


def verdict(verified: Verification | None) -> str:
    """Return what the model answers without the units of the highest scores, in sentences; empty without a test."""
    if verified is None:
        return ""
    removal = verified.smallest or verified.together
    unchanged = "still " if verified.smallest is None and verified.original.prediction is not None else ""
    unchanged = "" if verified.quantity == "value" else unchanged
    original = f" ({verified.original.value:.3g} with all)" if verified.quantity in ("value", "cosine") else ""
    parts = [f"Without {_names(verified, removal)}: {unchanged}{answer_text(verified, removal)}{original}."]
    if verified.control is not None:
        count = len(verified.control.units)
        control_units = f"{count} other {verified.unit}{'s' if count > 1 else ''}"
        parts.append(f"Without {control_units}: {answer_text(verified, verified.control)}.")
    return " ".join(parts)


def without_text(a: Attribution, tokens: Sequence[int]) -> str:
    """Return the answer without the unit that holds the first of some tokens; empty where that was not measured."""
    verified = a.verified
    removal = verified.without(tokens[0]) if verified is not None and tokens else None
    return "" if verified is None or removal is None else answer_text(verified, removal)


def answer_text(verified: Verification, removal: Removal) -> str:
    """Return an answer, with the probability of what is explained where that is not what is predicted."""
    if verified.quantity == "log-probability":
        return f"{removal.value - verified.original.value:+.1f} nats"
    if removal.prediction is None or verified.quantity == "cosine":
        return f"{removal.value:.3f}"
    text = prediction_text(removal.prediction)
    explains_prediction = verified.original.prediction is None or verified.original.prediction.label == verified.target
    if verified.quantity != "probability" or explains_prediction:
        return text
    return f"{text} ({verified.target}: {100 * removal.value:.1f}%)"


def _names(verified: Verification, removal: Removal) -> str:
    """Return the units of a removal as a list in a sentence."""
    count, unit = len(removal.units), verified.unit
    if verified.smallest is None and count > 1:
        return f"the {count} {unit}s of the highest scores"
    if count > NAMED:
        return f"{count} {unit}s"
    quoted = unit in ("word", "token", "source")
    marked = [f'"{shortened(visible(text), LONGEST)}"' if quoted else f"{unit} {text}" for text in removal.units]
    return marked[0] if count == 1 else ", ".join(marked[:-1]) + " and " + marked[-1]


def removals_table(verified: Verification | None) -> list[Table]:
    """Return the answer without each unit as a table; none without a test."""
    if verified is None:
        return []
    rows = [[cell(_names(verified, removal)), cell(answer_text(verified, removal))] for removal in verified.single]
    return [Table([Column(verified.unit), Column(WITHOUT)], rows)]
