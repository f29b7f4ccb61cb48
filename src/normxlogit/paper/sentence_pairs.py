"""Pairs of sentences as a model reads them: the target masked, or the text before it."""

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from transformers import PreTrainedTokenizerBase

from ..errors import DataError, UnsupportedModelError
from ..inputs.encoder import Encoder
from ..inputs.encoding import Encoding
from ..models.task_classes import TaskName
from .blimp import SPLIT_SEED, Counts, Half, Pair, Paradigm, Span, load_pairs
from .evidence import evidence_of

__all__ = ["Item", "load_items"]


@dataclass(frozen=True)
class Item:
    """One pair as a language model is asked about it.

    Attributes:
        paradigm: Where it is from.
        encoding: The sentence with the target masked, which `position` points at; for causal models the text before
            the target.
        target: The target's vocabulary index.
        foil: The foil's.
        plural: Whether the target is a plural form.
        evidence: For each evidence word the positions of its tokens; empty where none was asked for.
    """

    paradigm: Paradigm
    encoding: Encoding
    target: int
    foil: int
    plural: bool
    evidence: tuple[tuple[int, ...], ...] = ()

    @property
    def position(self) -> int:
        """Index of the token at which the model answers."""
        return len(self.encoding) - 1 if self.encoding.position is None else self.encoding.position


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
        encoder: The model's.
        task: The model's: "masked-lm" or "causal-lm".
        evidence: Whether to find evidence, which takes spaCy.
        data_dir: See `load_pairs`.
        limit: See `load_pairs`.
        max_length: Read at most this many tokens.

    Returns:
        The items, and what became of the rows.

    Raises:
        DataError: If there is no data, no parser, or no pair is left.
        UnsupportedModelError: If the model is no language model, has no mask, or its tokenizer tells no offsets.
    """
    _check(encoder.tokenizer, task)
    counts = Counts()
    pairs = load_pairs(half, counts, data_dir=data_dir, limit=limit)
    good = encoder([pair.good for pair in pairs], max_length=max_length)
    bad = encoder([pair.bad for pair in pairs], max_length=max_length)
    read: list[tuple[Pair, Item]] = []
    for pair, ours, theirs in zip(pairs, good, bad, strict=True):
        item = _item(pair, ours, theirs, encoder.tokenizer, task)
        if isinstance(item, str):
            counts.drop(pair.paradigm, item)
        else:
            read.append((pair, item))
    items = [item for _, item in read]
    if evidence:
        items = []
        for (pair, item), spans in zip(read, evidence_of(pair for pair, _ in read), strict=True):
            found = _with_evidence(pair, item, spans)
            if isinstance(found, str):
                counts.drop(pair.paradigm, found)
            else:
                items.append(found)
    items = _balanced(items, counts)
    if not items:
        reasons = {reason for dropped in counts.dropped.values() for reason in dropped}
        raise DataError(f"no pair is left to measure or train on: {'; '.join(sorted(reasons))}")
    return items, counts


def _check(tokenizer: PreTrainedTokenizerBase, task: TaskName) -> None:
    if task not in ("masked-lm", "causal-lm"):
        raise UnsupportedModelError(f"pairs of sentences are put to masked and causal language models, not to {task}")
    if task == "masked-lm" and tokenizer.mask_token_id is None:
        raise UnsupportedModelError("the model's tokenizer has no mask token to put in the target's place")
    if not tokenizer.is_fast:
        raise UnsupportedModelError("the model's tokenizer is a slow one and does not tell where its tokens stand")


def _item(pair: Pair, good: Encoding, bad: Encoding, tokenizer: PreTrainedTokenizerBase, task: TaskName) -> Item | str:
    """Return the pair as the model reads it, or why it is left out."""
    ours, theirs = _covering(good, pair.target), _covering(bad, pair.foil)
    if not ours or not theirs:
        return "target or foil beyond the tokens read"
    place = ours[0]
    rest = [(e.ids[:place], e.ids[place + 1 :]) for e in (good, bad)]
    if len(ours) > 1 or len(theirs) > 1 or rest[0] != rest[1]:
        return "target or foil of several tokens"
    target, foil = good.ids[place], bad.ids[place]
    if tokenizer.unk_token_id in (target, foil):
        return "target or foil unknown to the tokenizer"
    if task == "causal-lm":
        if place == 0:
            return "nothing before the target"
        return Item(pair.paradigm, good.take(range(place)), target, foil, pair.plural)
    mask = tokenizer.mask_token_id
    ids, tokens = list(good.ids), list(good.tokens)
    ids[place], tokens[place] = mask, str(tokenizer.mask_token)
    masked = replace(good, inputs={**good.inputs, "input_ids": ids}, tokens=tuple(tokens), position=place)
    return Item(pair.paradigm, masked, target, foil, pair.plural)


def _covering(encoding: Encoding, span: Span) -> tuple[int, ...]:
    """Return the tokens that stand, in part at least, on a span of characters."""
    places = enumerate(zip(encoding.offsets or (), encoding.special, strict=True))
    return tuple(i for i, ((start, end), special) in places if not special and start < span[1] and end > span[0])


def _with_evidence(pair: Pair, item: Item, spans: Sequence[Span]) -> Item | str:
    if not spans:
        return "no evidence found"
    found = tuple(_covering(item.encoding, span) for span in spans)
    if not all(found):
        after = item.encoding.position is None and any(span[0] >= pair.target[0] for span in spans)
        return "evidence not before the target" if after else "evidence beyond the tokens read"
    return replace(item, evidence=found)


def _balanced(items: list[Item], counts: Counts) -> list[Item]:
    """Leave the surplus of singular or plural targets out where the paradigm is balanced."""
    groups: dict[tuple[str, bool], list[int]] = defaultdict(list)
    for place, item in enumerate(items):
        if item.paradigm.balanced:
            groups[item.paradigm.short, item.plural].append(place)
    out = set()
    for (short, plural), places in groups.items():
        fewer = min(len(places), len(groups.get((short, not plural), [])))
        out |= set(random.Random(SPLIT_SEED).sample(places, len(places) - fewer))  # noqa: S311  # no secret
        for place in sorted(set(places) & out):
            counts.drop(items[place].paradigm, f"surplus of {'plural' if plural else 'singular'} targets")
    return [item for place, item in enumerate(items) if place not in out]
