"""Pairs of sentences encoded for a language model: one half of BLiMP's agreement paradigms, or a user's own."""

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from normxlogit.errors import DataError
from normxlogit.inputs.encoder import Encoder
from normxlogit.tasks import TaskName

from .blimp import PARADIGMS, SPLIT_SEED, Counts, Half, is_plural, load_pairs
from .evidence import evidence_of
from .minimal_pairs import Item, Pair, Span, encode_pairs

__all__ = ["encode_own", "load_items"]


def load_items(
    half: Half,
    encoder: Encoder,
    task: TaskName,
    *,
    evidence: bool,
    data_dir: str | Path | None = None,
    limit: int | None = None,
    max_length: int | None = None,
) -> tuple[list[Item], Counts]:
    """Read one half of the data for a model.

    Kept are pairs whose target and foil are single tokens in their sentences; with evidence, those in which some was
    found, for causal models before the target; and of the balanced paradigm as many singular as plural targets.

    Args:
        half: "train" or "test".
        encoder: The model's encoder.
        task: The model's task: "masked-lm" or "causal-lm".
        evidence: Whether to find evidence, which needs spaCy.
        data_dir: See `load_pairs`.
        limit: See `load_pairs`.
        max_length: Most tokens of a sentence.

    Returns:
        The items, and how many rows were left out for which reason.

    Raises:
        DataError: If there is no data or no parser, or if no pair is left.
        UnsupportedModelError: If the model is not a language model, or its tokenizer has no mask token or no offsets.
    """
    counts = Counts()
    pairs = load_pairs(half, counts, data_dir=data_dir, limit=limit)
    items = encode_pairs(pairs, encoder, task, max_length=max_length)
    if evidence:  # only pairs that the model can read are parsed
        pairs = _kept(pairs, items, counts)[0]
        items = encode_pairs(pairs, encoder, task, list(evidence_of(pairs)), max_length)
    return _some(_balanced(*_kept(pairs, items, counts), counts), counts)


def encode_own(
    pairs: Sequence[Pair], evidence: Sequence[Sequence[Span]], encoder: Encoder, task: TaskName
) -> tuple[list[Item], Counts]:
    """Encode pairs of a user's own for a model; returns and raises what `load_items` does."""
    counts = Counts(Counter(pair.group for pair in pairs))
    return _some(_kept(pairs, encode_pairs(pairs, encoder, task, evidence), counts)[1], counts)


def _some(items: list[Item], counts: Counts) -> tuple[list[Item], Counts]:
    if not items:
        reasons = {reason for dropped in counts.dropped.values() for reason in dropped}
        raise DataError(f"no pair is left to measure or train on: {'; '.join(sorted(reasons))}")
    return items, counts


def _kept(pairs: Sequence[Pair], items: Sequence[Item | str], counts: Counts) -> tuple[list[Pair], list[Item]]:
    """Return the pairs that a model can read and their items, and count the others."""
    kept = []
    for pair, item in zip(pairs, items, strict=True):
        if isinstance(item, str):
            counts.drop(pair.group, item)
        else:
            kept.append((pair, item))
    return [pair for pair, _ in kept], [item for _, item in kept]


def _balanced(pairs: Sequence[Pair], items: Sequence[Item], counts: Counts) -> list[Item]:
    """Leave out the surplus of singular or plural targets where the paradigm is balanced."""
    groups: dict[tuple[str, bool], list[int]] = defaultdict(list)
    for index, pair in enumerate(pairs):
        if PARADIGMS[pair.group].balanced:
            groups[pair.group, is_plural(pair)].append(index)
    surplus = set()
    for (short, plural), members in groups.items():
        fewer = min(len(members), len(groups.get((short, not plural), [])))
        drawn = random.Random(SPLIT_SEED).sample(members, len(members) - fewer)  # noqa: S311  # not for security
        surplus |= set(drawn)
        for _ in drawn:
            counts.drop(short, f"surplus of {'plural' if plural else 'singular'} targets")
    return [item for index, item in enumerate(items) if index not in surplus]
