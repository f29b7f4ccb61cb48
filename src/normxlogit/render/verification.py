"""A verification as text: the sentence above a text, and the answer beside each word."""

from collections.abc import Sequence

from ..results.attribution import Attribution
from ..results.units.characters import visible
from ..results.verification import Removal, Verification, likelihood_text
from .blocks import Column, Table, cell
from .describe import prediction_text, shortened

NAMED, LONGEST = 6, 60
"""Most units that a sentence names, and most characters of each."""

LARGER = ("sentence", "paragraph", "message", "part")
"""Units that may hold several words."""

WITHOUT = "without it"
"""The heading of the column of answers without a word."""


def verdict(verified: Verification | None) -> str:
    """Return sentences on the answers without the units of the highest scores; empty without a verification."""
    if verified is None:
        return ""
    removal, control = verified.smallest or verified.together, verified.control
    has_label = verified.original.prediction is not None and verified.quantity != "value"
    unchanged = "still " if verified.smallest is None and has_label else ""
    original = f" ({verified.original.value:.3g} with all)" if verified.quantity in ("value", "cosine") else ""
    sentences = [f"Without {_names(verified, removal)}: {unchanged}{answer_text(verified, removal)}{original}."]
    if control is not None:
        units = f"{verified.unit}{'s' if len(control.units) > 1 else ''}"
        sentences.append(f"Without {len(control.units)} other {units}: {answer_text(verified, control)}.")
    return " ".join(sentences)


def without_text(a: Attribution, tokens: Sequence[int]) -> str:
    """Return the answer without the word of some tokens; empty if it was not measured."""
    removal = a.verified.without(tokens[0]) if a.verified is not None and tokens else None
    if a.verified is None or removal is None or (a.verified.unit in LARGER and not set(removal.tokens) <= set(tokens)):
        return ""
    return answer_text(a.verified, removal)


def answer_text(verified: Verification, removal: Removal) -> str:
    """Return an answer, with the probability of the target if that is not the prediction."""
    original = verified.original
    if verified.quantity == "log-probability":
        return likelihood_text(removal.value - original.value)
    if removal.prediction is None or verified.quantity == "cosine":
        return f"{removal.value:.3f}"
    explains_prediction = original.prediction is None or original.prediction.label == verified.target
    of_target = f" ({verified.target}: {100 * removal.value:.1f}%)"
    text = prediction_text(removal.prediction)
    return text if verified.quantity != "probability" or explains_prediction else text + of_target


def removals_table(verified: Verification | None) -> list[Table]:
    """Return a table of the answers without each unit; None without a verification."""
    if verified is None:
        return []
    rows = [[cell(_names(verified, removal)), cell(answer_text(verified, removal))] for removal in verified.single]
    return [Table([Column(verified.unit), Column(WITHOUT)], rows)]


def removal_text(removal: Removal) -> str:
    """Return the units of a removal, and what the model predicts without them, or how the measured value changes."""
    value, original = removal.value, removal.original
    if removal.quantity == "log-probability":
        answer = likelihood_text(value - original)
    elif removal.quantity == "cosine":
        answer = f"the similarity {'falls' if value < original else 'rises'} from {original:.2f} to {value:.2f}"
    else:
        answer = "" if removal.prediction is None else prediction_text(removal.prediction)
        answer += f" ({original:.3g} with all)" if removal.quantity == "value" else ""
    return f"Without {_listed(removal.units, 'part')}: {answer}."


def _names(verified: Verification, removal: Removal) -> str:
    """Return the units of a removal as a list in a sentence."""
    if removal.values and removal is verified.together:
        return "any of the sources"  # of a cited answer
    if verified.smallest is None and len(removal.units) > 1 and not verified.named:
        return f"the {len(removal.units)} {verified.unit}s of the highest scores"
    return _listed(removal.units, verified.unit)


def _listed(units: Sequence[str], unit: str) -> str:
    """Return units, each a word, region or other `unit`, as a list in a sentence."""
    if len(units) > NAMED:
        return f"{len(units)} {unit}s"
    unquoted = unit in ("region", "moment")
    marked = [f"{unit} {t}" if unquoted else f'"{shortened(visible(t), LONGEST)}"' for t in units]
    return " and ".join(filter(None, [", ".join(marked[:-1]), *marked[-1:]])) or "nothing"
