"""What a classifier that knows entailment adds to the verdicts of the reader, by kind of falsehood."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from transformers import pipeline

from normxlogit.evaluation.evidence import auroc
from normxlogit.evaluation.report import markdown_table
from normxlogit.grounding.checking import SOURCES, Check, combined
from normxlogit.grounding.citations.reading import split_words
from normxlogit.grounding.evaluation.evaluation import MeasuredSentence
from normxlogit.grounding.verdicts import Judgement
from normxlogit.text.boundaries import sentence_spans

from .grounding_pairs import written
from .verdicts import Array, measured_sentences

BATCH = 3
"""Pairs of texts that the checker reads at once."""


class CheckedSentence(NamedTuple):
    """A sentence with the verdict of the reader, and what the checker makes of it.

    Attributes:
        measured: The sentence as the reader has read it.
        check: The comparison that decides, as in `cite`.
        entailment: The largest probability of entailment by one of the sources.
    """

    measured: MeasuredSentence
    check: Check
    entailment: float


def check_sentences(folder: str, path: Path) -> list[CheckedSentence]:
    """Compare the sentences of the test that were written by hand with the sources that have most of their words.

    Args:
        folder: A classifier of pairs of texts that knows entailment.
        path: The sentences as the reader has measured them.
    """
    classify: Any = pipeline("text-classification", model=folder, top_k=None, batch_size=BATCH)
    documents = {
        (asked.domain, sentence): asked.documents
        for asked in written()
        for pair in asked.pairs
        for sentence in (pair.true, pair.false)
    }
    measured = [m for m in measured_sentences(path) if (m.statement.split, m.statement.origin) == ("test", "written")]
    checked_sentences = []
    for sentence in measured:
        statement = sentence.statement
        texts = documents[statement.domain, statement.sentence].values()
        sources = [text[start:end] for text in texts for start, end in sentence_spans(text)]
        words = set(split_words(statement.sentence))
        shared = [-len(words & set(split_words(source))) for source in sources]
        nearest = [sources[place] for place in np.argsort(shared, kind="stable")[:SOURCES]]
        pairs = [{"text": source, "text_pair": statement.sentence} for source in nearest]
        labels: list[dict[str, float]] = [
            {label["label"]: label["score"] for label in of_pair} for of_pair in classify(pairs)
        ]
        checks = [Check(label=max(some, key=some.__getitem__), probability=max(some.values())) for some in labels]
        entailment = max(p for some in labels for name, p in some.items() if name.casefold().startswith("entail"))
        checked_sentences.append(CheckedSentence(sentence, max(checks, key=Check.weight), entailment))
    return checked_sentences


def table(sentences: Sequence[CheckedSentence]) -> str:
    """Return by kind how well sentences are told apart, and what is said of them, without the checker and with it.

    "both" adds the logarithms of the reader's probability and of the checker's.
    """
    true = [sentence for sentence in sentences if sentence.measured.statement.true]
    false = [sentence for sentence in sentences if not sentence.measured.statement.true]
    kinds = groupby(sorted(false, key=_kind), key=_kind)
    groups = [("true", true), *((kind, list(of_kind)) for kind, of_kind in kinds), ("all that are false", false)]
    rows = []
    for name, group in groups:
        columns_of_both = map(np.concatenate, zip(_values(true), _values(group), strict=True))
        is_true = np.arange(len(true) + len(group)) < len(true)
        areas = ["", "", ""] if group is true else [f"{auroc(values, is_true):.2f}" for values in columns_of_both]
        alone: list[Judgement] = [sentence.measured.verdict.judgement for sentence in group]
        together: list[Judgement] = [combined(sentence.measured.verdict, sentence.check) for sentence in group]
        rows.append([name, str(len(group)), *areas, *_shares(alone), *_shares(together)])
    columns = ["sentences", "n", "AUROC of the reader ↑", "of the checker ↑", "of both ↑"]
    return markdown_table([*columns, "rests", "false", "with it: rests", "with it: false"], rows)


def _kind(sentence: CheckedSentence) -> str:
    return sentence.measured.statement.kind


def _values(sentences: Sequence[CheckedSentence]) -> list[Array]:
    """Return the logarithms of the probabilities of the reader, of the checker, and their sums, (n,) each."""
    verdicts = [sentence.measured.verdict for sentence in sentences]
    reader = np.log([verdict.covered * verdict.agreed for verdict in verdicts])
    checker = np.log([sentence.entailment for sentence in sentences])
    return [reader, checker, reader + checker]


def _shares(judgements: Sequence[Judgement]) -> list[str]:
    """Return how many sentences rest, and how many are said to be false: contradicted or not in the sources."""
    rests = np.mean([judgement == "rests" for judgement in judgements])
    false = np.mean([judgement in ("contradicts", "not in the sources") for judgement in judgements])
    return [f"{rests:.2f}", f"{false:.2f}"]
