"""Descriptions of a result as text: the prediction, the target, the method, and the answers without units."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import PurePath
from typing import Any, NamedTuple

from ..errors import MethodError
from ..methods.registry import MethodInfo, describe
from ..results.attribution import Attribution
from ..results.storage.schema import check, setting_text
from ..results.targets import prediction_of, prediction_text
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
    """Return the header of a result, or of several methods' for one text and target with what each costs."""
    first, methods = results[0], [method_of(a) for a in results]
    if len(results) > 1:
        costs = {info.name: info.passes for a in results if (info := _info(a)) is not None}  # at the default settings
        methods = [f"{name}: {costs[name]}" if name in costs else name for name in methods]
    facts = [("explained", meanings(first)[0]), *(("method", name) for name in methods)]
    facts.append(("model", model_text(first.model)))
    prediction = prediction_of(first)
    notes = [note for a in results for note in a.notes]
    return Header("" if prediction is None else prediction_text(prediction), facts, list(dict.fromkeys(notes)), tested)


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
    first = a.targets[0]
    positive, negative = f"for {explained}", "against it" if a.generated else f"against {explained}"
    if first.kind in ("value", "cosine"):
        positive, negative = f"raises {explained}", f"lowers {explained}"
    if first.contrast is not None:
        negative = f"for {visible(first.contrast)}"
    return Meanings(_target_text(a, explained), positive, negative)


def _explained(a: Attribution) -> str:
    """Return what a positive score is for: the target by its name, or what the targets are."""
    names = [visible(target.name) for target in a.targets]
    if a.generated:
        if _explains_itself(a):
            return "the token"
        return names[0] if len(set(names)) == 1 else "the tokens asked for"
    if len(names) == 1:
        return names[0]
    return "the token" if a.targets[0].kind == "token" else "the label"


def _explains_itself(a: Attribution) -> bool:
    """Return whether the target of each generated token is the token itself."""
    return all(target.id == token.id for target, token in zip(a.targets, a.generated, strict=True))


def _target_text(a: Attribution, explained: str) -> str:
    """Return the explained target with its contrast, its layer and its position, as far as it has them."""
    first = a.targets[0]
    target = ", ".join(visible(target.name) for target in a.targets)
    if a.generated:
        target = "each generated token" if _explains_itself(a) else explained
    if first.contrast is not None:
        target = f"{target} rather than {visible(first.contrast)}"
    if a.generated and a.layers is not None:
        target += f", layer {a.layers[-1]} shown"
    positions = {target.position for target in a.targets}
    is_one_position = len(positions) == 1 and not a.generated
    if is_one_position and first.position is not None and first.position < len(a.tokens):
        target += f", at position {first.position} ({visible(a.tokens[first.position])})"
    return target


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


def distinct_methods(results: Sequence[Attribution]) -> list[str]:
    """Return headings of methods: names, with settings where one method occurs with several."""
    names = [a.method for a in results]
    return [a.method if names.count(a.method) == 1 else method_of(a) for a in results]


def without_text(a: Attribution, tokens: Sequence[int]) -> str:
    """Return the answer without the word of some tokens; empty if it was not measured."""
    if a.verified is None or not tokens or (removal := a.verified.without(tokens[0])) is None:
        return ""
    of_more = a.verified.unit not in SINGLE and not set(removal.tokens) <= set(tokens)
    return "" if of_more else answer_text(removal, a.verified)


def removals_table(verified: Verification | None, *, has_bars: bool = False) -> list[Table]:
    """Return a table of the answers without each unit; none without a verification.

    Args:
        verified: The verification.
        has_bars: Whether single units have bars, beside which the answers without them are said.
    """
    if verified is None or (has_bars and verified.unit in SINGLE):
        return []
    if has_bars and all(len(removal.tokens) == 1 for removal in verified.single):
        return []
    rows = [[cell(names_of(verified, removal)), cell(answer_text(removal, verified))] for removal in verified.single]
    return [Table([Column(verified.unit), Column(WITHOUT)], rows)]
