"""Descriptions of a result as text: the prediction, the target, the method, and the answers without units."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import PurePath
from typing import Any, NamedTuple

from ..errors import MethodError
from ..methods.registry import MethodInfo, describe
from ..results.attribution import Attribution
from ..results.storage.schema import check, setting_text
from ..results.targets import common_position, prediction_of, prediction_text
from ..results.units.characters import visible
from ..results.verification import Verification, answer_text, names_of
from .blocks import Column, Header, Table, cell

UNKNOWN = ("[UNK]", "<unk>", "<UNK>")
"""Tokens for words that are not in the vocabulary."""

WITHOUT = "without it"
"""The heading of the answers without a word."""

SINGLE = ("word", "token", "source")
"""Units whose removals are said beside their bars; others may hold several words, or are parts of media."""


def header(results: Sequence[Attribution], tested: str = "") -> Header:
    """Return the header of a result, or of several methods' for one text and target with what each costs.

    Args:
        results: The result, or those of several methods on one text.
        tested: What a verification found, as text; empty without one.
    """
    first = results[0]
    prediction = prediction_of(first)
    methods = map(method_of if len(results) == 1 else _method_with_cost, results)  # costs are there to be compared
    facts = [("explained", meanings(first).target), *(("method", name) for name in methods)]
    facts.append(("model", model_text(first.model)))
    notes = dict.fromkeys(note for a in results for note in a.notes)  # those of the text are the same for each method
    return Header("" if prediction is None else prediction_text(prediction), facts, list(notes), tested)


def _method_with_cost(a: Attribution) -> str:
    """Return a result's method, with what it costs if its settings are the default ones."""
    name, info = method_of(a), _info(a)
    if info is None or name != info.name:  # with other settings the costs may be others
        return name
    return f"{name}: {info.passes}"


class Meanings(NamedTuple):
    """What is explained, and what scores mean."""

    target: str
    positive: str
    negative: str | None  # None for methods without signs


def meanings(a: Attribution) -> Meanings:
    """Return the explained target, and the meanings of positive and negative scores."""
    explained = _explained(a)
    if not a.signed:
        return Meanings(_target_text(a, explained), "importance", None)
    first = a.targets[0]  # all targets of a result are of its kind and have its contrast
    # For generated text "it" is whichever token the reader looks at.
    positive, negative = f"for {explained}", "against it" if a.generated else f"against {explained}"
    if first.kind in ("value", "cosine"):
        positive, negative = f"raises {explained}", f"lowers {explained}"
    if first.contrast is not None:
        negative = f"for {visible(first.contrast)}"
    return Meanings(_target_text(a, explained), positive, negative)


def _explained(a: Attribution) -> str:
    """Return what a positive score is for: the target by its name, or what the targets are."""
    if a.explains_itself:
        return "the token"
    names = [visible(target.name) for target in a.targets]
    if a.generated:
        return names[0] if len(set(names)) == 1 else "the tokens asked for"
    if len(names) == 1:
        return names[0]
    return "the token" if a.targets[0].kind == "token" else "the label"


def _target_text(a: Attribution, explained: str) -> str:
    """Return the explained target with its contrast, its layer and its position, as far as it has them.

    Args:
        a: The result.
        explained: What a positive score is for, see `_explained`.
    """
    if a.generated:
        target = "each generated token" if a.explains_itself else explained
        place = "" if a.layers is None else f", layer {a.layers[-1]} shown"  # see `generation_blocks`
    else:
        target = ", ".join(visible(target.name) for target in a.targets)
        place = _position_text(a)
    contrast = a.targets[0].contrast
    return f"{target}{place}" if contrast is None else f"{target} rather than {visible(contrast)}{place}"


def _position_text(a: Attribution) -> str:
    """Return the position at which all targets are read, as the end of a sentence; empty if there is none."""
    position = common_position(a.targets)
    if position is None or position >= len(a.tokens):
        return ""
    return f", at position {position} ({visible(a.tokens[position])})"


def score_label(a: Attribution) -> str:
    """Return the label of an axis of scores."""
    meaning = meanings(a)
    if not meaning.negative:
        return f"score: {meaning.positive}"
    return f"score: {meaning.positive} (+), {meaning.negative} (−)"


def model_text(name: str) -> str:
    """Return a model's name; for a local folder, the last part of its path."""
    path = PurePath(name)
    is_folder = path.is_absolute() or name.startswith((".", "~")) or len(path.parts) > 2  # names on the hub have two
    return (path.name or name) if is_folder else name


def method_of(a: Attribution) -> str:
    """Return a result's method with the settings that differ from its defaults in brackets."""
    info = _info(a)
    defaults = {key: check(Any)(default) for key, default in info.defaults.items()} if info else {}  # as stored
    changed = {key: value for key, value in a.settings.items() if key not in defaults or defaults[key] != value}
    settings = ", ".join(f"{key}={setting_text(value)}" for key, value in changed.items())
    return f"{a.method} ({settings})" if settings else a.method


def _info(a: Attribution) -> MethodInfo | None:
    """Return what is known of a result's method; None if it is not installed."""
    with suppress(MethodError):
        return describe(a.method)
    return None


def without_text(a: Attribution, tokens: Sequence[int]) -> str:
    """Return the answer without the word of some tokens; empty if it was not measured.

    Args:
        a: The result, with or without a verification.
        tokens: The tokens of the word.
    """
    if a.verified is None or not tokens:
        return ""
    removal = a.verified.without(tokens[0])  # a word is removed as a whole: its first token stands for it
    if removal is None:
        return ""
    removed_more = a.verified.unit not in SINGLE and not set(removal.tokens) <= set(tokens)  # such as its sentence
    return "" if removed_more else answer_text(removal, a.verified)


def removals_table(verified: Verification | None, *, has_bars: bool = False) -> list[Table]:
    """Return a table of the answers without each unit; none without a verification.

    Args:
        verified: The verification.
        has_bars: Whether single units have bars, beside which the answers without them are said.
    """
    if verified is None or (has_bars and verified.unit in SINGLE):  # said beside the bars, see `without_text`
        return []
    single = verified.single
    if has_bars and all(len(removal.tokens) == 1 for removal in single):  # each is a unit of the result, with a bar
        return []
    rows = [[cell(names_of(verified, removal)), cell(answer_text(removal, verified))] for removal in single]
    return [Table([Column(verified.unit), Column(WITHOUT)], rows)]
