"""Sets in which it is known what an answer rests on, as files for `normxlogit evaluate evidence`.

- phrases: sentences of SST-2, and their words that people labelled alone, out of any sentence, as the sentence is.
- agreement: BLiMP's sentences; the word that decides between the right form and the wrong one, by a parse.
- sums: sums among other numbers. The model adds right, also where a number is changed, and ignores the others.
"""

from collections import defaultdict
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from normxlogit.errors import InputError
from normxlogit.evaluation.datasets import read_rows, task_named
from normxlogit.explainer import Explainer
from paper.blimp import Counts, load_pairs
from paper.evidence import evidence_of
from paper.minimal_pairs import Item, encode_pairs

Row = dict[str, Any]
"""A line of the file: the fields of `normxlogit.evaluation.evidence.Known`."""

SUMS = (
    "The sum of {a} and {b} is not {c} and not {d}. {a} + {b} = ",
    "Tom has {a} apples and {c} pears. Ann has {b} apples and {d} pears. Together they have {a} + {b} = ",
    "a = {a}, b = {b}, c = {c}, d = {d}. The sum a + b is {a} + {b} = ",
)
"""Sums of a and b, of at most 9; c and d are of no use."""


def known_phrases(data_dir: Path) -> Iterator[Row]:
    """Yield sentences of SST-2's validation set with the words that were labelled as they are, alone."""
    labels: defaultdict[str, set[int]] = defaultdict(set)
    for row in read_rows(data_dir / "sst2" / "train.jsonl"):
        if row["sentence"].strip().isalpha():
            labels[row["sentence"].strip()].add(row["label"])
    names = task_named("sst2").labels
    for row in read_rows(data_dir / "sst2" / "validation.jsonl"):
        words = [word for word in dict.fromkeys(row["sentence"].split()) if labels.get(word) == {row["label"]}]
        if words:
            yield {"text": row["sentence"], "target": names[row["label"]], "evidence": words}


def known_agreement(explainer: Explainer, data_dir: Path, seed: int) -> Iterator[Row]:
    """Yield sentences of BLiMP's test half that a language model can read, with the word that decides."""
    pairs = load_pairs("test", Counts(), data_dir=data_dir / "blimp")
    pairs = [pairs[i] for i in np.random.default_rng(seed).permutation(len(pairs)).tolist()]
    model, mask = explainer.task_model, explainer.tokenizer.mask_token
    for start in range(0, len(pairs), 100):
        some = pairs[start : start + 100]
        evidence = list(evidence_of(some))
        items = encode_pairs(some, model.encoder, model.task.name, evidence)
        for pair, item, spans in zip(some, items, evidence, strict=True):
            if isinstance(item, Item):
                masked = f"{mask}{pair.good[pair.target[1] :]}" if model.task.position.is_mask else ""
                text = (pair.good[: pair.target[0]] + masked).strip()
                words = [pair.good[slice(*span)] for span in spans]
                yield {"text": text, "target": item.target, "contrast": item.foil, "evidence": words}


def known_sums(explainer: Explainer, seed: int) -> Iterator[Row]:
    """Yield sums that a language model adds right, and adds right when any of their numbers is changed."""
    random = np.random.default_rng(seed)
    for number in range(10_000):
        a, b, c, d, other, unused = (int(n) for n in random.permutation(np.arange(1, 9))[:6])
        if max(a + b, other + b, a + other) > 9:
            continue
        template = SUMS[number % len(SUMS)]
        changes = [(a, b, c, d), (other, b, c, d), (a, other, c, d), (a, b, unused, d), (a, b, c, unused)]
        texts = [template.format(**dict(zip("abcd", change, strict=True))) for change in changes]
        answers = [result.prediction.label.strip() for result in explainer(texts, method="random")]
        if answers == [str(change[0] + change[1]) for change in changes]:
            yield {"text": texts[0], "evidence": [str(a), str(b)]}


def known_rows(name: str, explainer: Explainer | None, data_dir: Path, limit: int, seed: int) -> list[Row]:
    """Return the rows of a set.

    Raises:
        InputError: If there is no such set, or it needs a model.
    """
    if name == "phrases":
        return list(islice(known_phrases(data_dir), limit))
    if explainer is None:
        raise InputError(f"{name} takes a language model: name one with --model")
    rows = {
        "agreement": known_agreement(explainer, data_dir, seed),
        "sums": known_sums(explainer, seed),
    }[name]
    return list(islice(rows, limit))
