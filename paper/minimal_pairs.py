"""Minimal pairs: two sentences that differ in one word, and the words (the evidence) that tell which one is right."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase

from normxlogit.errors import UnsupportedModelError
from normxlogit.evaluation.datasets import parsed_rows
from normxlogit.inputs.encoder import Encoder
from normxlogit.inputs.encoding import Encoding
from normxlogit.tasks import TaskName

Span = tuple[int, int]
"""First character and one past the last."""

_WORD = re.compile(r"\w+(?:[-'’]\w+)*|[^\w\s]")


@dataclass(frozen=True)
class Pair:
    """Two sentences that differ in one word.

    Attributes:
        group: What the pair is an example of; results are also averaged over each group.
        target: The differing word in the grammatical sentence.
        foil: Its counterpart in the ungrammatical one.
    """

    group: str
    good: str
    bad: str
    target: Span
    foil: Span


@dataclass(frozen=True)
class Item:
    """A pair as a language model reads it.

    Attributes:
        group: The group of the pair.
        encoding: The sentence with the target masked, at `encoding.position`; for causal models the text before the
            target.
        target: Vocabulary index of the target.
        foil: Vocabulary index of the foil.
        evidence: For each evidence word the indices of its tokens; empty without evidence.
    """

    group: str
    encoding: Encoding
    target: int
    foil: int
    evidence: tuple[tuple[int, ...], ...] = ()

    @property
    def position(self) -> int:
        """Index of the token at which the model predicts the target."""
        return len(self.encoding) - 1 if self.encoding.position is None else self.encoding.position


def difference(good: str, bad: str) -> tuple[Span, Span] | str:
    """Return the span of the one word in which two sentences differ, in each of them, or why there is none."""
    good_words, bad_words = list(_WORD.finditer(good)), list(_WORD.finditer(bad))
    if len(good_words) != len(bad_words):
        return "the sentences have different numbers of words"
    differing = [(a.span(), b.span()) for a, b in zip(good_words, bad_words, strict=True) if a.group() != b.group()]
    if not differing:
        return "no word differs"
    return differing[0] if len(differing) == 1 else "several words differ"


def load_minimal_pairs(path: Path, limit: int | None = None) -> tuple[list[Pair], list[tuple[Span, ...]]]:
    """Read pairs with their evidence from JSON lines.

    Each line has "sentence_good", "sentence_bad" (the names of BLiMP's columns), "evidence", a word or phrase of the
    grammatical sentence or a list of them, and optionally "group".

    Returns:
        The pairs, and the evidence of each as spans of its grammatical sentence.

    Raises:
        DataError: If the file cannot be read; names the line.
    """
    rows = parsed_rows(path, _pair_of, "not a minimal pair with evidence", limit)
    return [pair for pair, _ in rows], [spans for _, spans in rows]


def _pair_of(row: Mapping[str, Any]) -> tuple[Pair, tuple[Span, ...]]:
    good, bad, phrases = row["sentence_good"], row["sentence_bad"], row["evidence"]
    spans = difference(good, bad)
    if isinstance(spans, str):
        raise ValueError(spans)
    evidence = []
    for phrase in [phrases] if isinstance(phrases, str) else phrases:
        match = re.search(rf"(?<!\w){re.escape(phrase)}(?!\w)", good)
        if match is None:
            raise ValueError(f"{phrase!r} is not in {good!r}")
        evidence.append(match.span())
    return Pair(str(row.get("group", "pairs")), good, bad, *spans), tuple(evidence)


def encode_pairs(
    pairs: Sequence[Pair],
    encoder: Encoder,
    task: TaskName,
    evidence: Sequence[Sequence[Span]] | None = None,
    max_length: int | None = None,
) -> list[Item | str]:
    """Encode pairs for a language model.

    Args:
        pairs: The pairs.
        encoder: The model's encoder.
        task: The model's task: "masked-lm" or "causal-lm".
        evidence: The evidence of each pair, as spans of its grammatical sentence; None encodes pairs without it.
        max_length: Most tokens of a sentence.

    Returns:
        An item for each pair, or the reason why this model cannot read it: target or foil are not single tokens in
        their sentences, or a causal model does not see the evidence before the target.

    Raises:
        UnsupportedModelError: If the model is not a language model, or its tokenizer has no mask token or no offsets.
    """
    _check(encoder.tokenizer, task)
    good = encoder([pair.good for pair in pairs], max_length=max_length)
    bad = encoder([pair.bad for pair in pairs], max_length=max_length)
    items = [
        _item(pair, one, other, encoder.tokenizer, task) for pair, one, other in zip(pairs, good, bad, strict=True)
    ]
    if evidence is None:
        return items
    return [
        item if isinstance(item, str) else _with_evidence(pair, item, spans)
        for pair, item, spans in zip(pairs, items, evidence, strict=True)
    ]


def _check(tokenizer: PreTrainedTokenizerBase, task: TaskName) -> None:
    if task not in ("masked-lm", "causal-lm"):
        raise UnsupportedModelError(f"minimal pairs are for masked and causal language models, not for {task}")
    if task == "masked-lm" and tokenizer.mask_token_id is None:
        raise UnsupportedModelError("the model's tokenizer has no mask token to replace the target with")
    if not tokenizer.is_fast:
        raise UnsupportedModelError("the model's tokenizer gives no character offsets: load a fast tokenizer")


def _item(pair: Pair, good: Encoding, bad: Encoding, tokenizer: PreTrainedTokenizerBase, task: TaskName) -> Item | str:
    """Return a pair as the model reads it, or why it is left out."""
    targets, foils = _covering(good, pair.target), _covering(bad, pair.foil)
    if not targets or not foils:
        return "target or foil beyond the tokens read"
    index = targets[0]
    others = [(e.ids[:index], e.ids[index + 1 :]) for e in (good, bad)]
    if len(targets) > 1 or len(foils) > 1 or others[0] != others[1]:
        return "target or foil of several tokens"
    target, foil = good.ids[index], bad.ids[index]
    if tokenizer.unk_token_id in (target, foil):
        return "target or foil unknown to the tokenizer"
    if task == "causal-lm":
        if index == 0:
            return "nothing before the target"
        return Item(pair.group, good.take(range(index)), target, foil)
    ids = [*good.ids[:index], tokenizer.mask_token_id, *good.ids[index + 1 :]]
    tokens = (*good.tokens[:index], str(tokenizer.mask_token), *good.tokens[index + 1 :])
    masked = replace(good, inputs={**good.inputs, "input_ids": ids}, tokens=tokens, position=index)
    return Item(pair.group, masked, target, foil)


def _with_evidence(pair: Pair, item: Item, spans: Sequence[Span]) -> Item | str:
    if not spans:
        return "no evidence found"
    tokens = tuple(_covering(item.encoding, span) for span in spans)
    if not all(tokens):
        after = item.encoding.position is None and any(span[0] >= pair.target[0] for span in spans)
        return "evidence not before the target" if after else "evidence beyond the tokens read"
    return replace(item, evidence=tokens)


def _covering(encoding: Encoding, span: Span) -> tuple[int, ...]:
    """Return the tokens that cover a span of characters, in part at least."""
    places = enumerate(zip(encoding.offsets or (), encoding.special, strict=True))
    return tuple(i for i, ((start, end), special) in places if not special and start < span[1] and end > span[0])
