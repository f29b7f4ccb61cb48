"""The swap test of citations, on true sentences and on false ones that rest on the same documents."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from normxlogit.errors import DataError
from normxlogit.evaluation.grounding_cases import ENTITY, SENTENCES
from normxlogit.evaluation.questions import qnli_documents, read_lines
from normxlogit.evaluation.report import markdown_table
from normxlogit.evaluation.runs import Progress, counted
from normxlogit.explainer import Explainer

WRITTEN = Path(__file__).with_name("swapped_sentences.jsonl")
"""Sixty true sentences about documents of ten domains, each with a false one, written by hand."""


class Pair(NamedTuple):
    """A true and a false sentence about the same documents."""

    question: str
    documents: Mapping[str, str]
    true: str
    false: str


class Verdicts(NamedTuple):
    """How the reader of the documents judges the two sentences of a pair.

    Attributes:
        contradicted: Whether it would rather have read another value, of the true and of the false sentence.
        rests: Whether share and loss say that the sentence rests on the documents.
        tested: Whether a value of the sentence has another of its kind in the documents.
    """

    contradicted: tuple[bool, bool]
    rests: tuple[bool, bool]
    tested: tuple[bool, bool]


def load_pairs(path: Path | None, limit: int, seed: int = 0) -> list[Pair]:
    """Read pairs; of QNLI's rows the sentence that answers, with a value of another sentence in it.

    Args:
        path: QNLI's rows; None for the sentences that were written by hand.
        limit: Most pairs.
        seed: Draws documents and values.

    Raises:
        DataError: If the file cannot be read, or no sentence has a value to exchange.
    """
    if path is None:
        return read_lines(WRITTEN, lambda row: Pair(**row), "not a pair of sentences", limit)
    rows = read_lines(path, dict, "not a row of QNLI", None)
    random = np.random.default_rng(seed)
    pairs = []
    for question, sentences, place, _ in qnli_documents(rows, len(rows), seed, SENTENCES):
        evidence, rest = sentences[place], " ".join([*sentences[:place], *sentences[place + 1 :]])
        for match in ENTITY.finditer(evidence):
            number = match.group()[0].isdecimal()
            others = [e for e in ENTITY.findall(rest) if e[0].isdecimal() == number and e not in evidence]
            if others:
                other = others[int(random.integers(len(others)))]
                false = evidence[: match.start()] + other + evidence[match.end() :]
                pairs.append(Pair(question, {"text": "\n\n".join(sentences)}, evidence, false))
                break
        if len(pairs) == limit:
            break
    if not pairs:
        raise DataError(f"{path}: no sentence with a number or a name that another sentence has, too")
    return pairs


def read(explainer: Explainer, pairs: Sequence[Pair], on_progress: Progress | None = None) -> list[Verdicts]:
    """Cite the documents for the two sentences of each pair, with the default test."""
    verdicts = []
    for _, pair in counted("pairs", pairs, on_progress):
        columns = []
        for sentence in (pair.true, pair.false):
            answer = explainer.cite(pair.question, pair.documents, answer=sentence)
            support = answer.support
            columns.append(
                (
                    any(one.contradiction is not None for one in support),
                    all(one.rests for one in support),
                    bool(answer.verified and answer.verified.swaps),
                )
            )
        verdicts.append(Verdicts(*zip(*columns, strict=True)))
    return verdicts


def table(sets: Mapping[str, Sequence[Verdicts]]) -> str:
    """Return the shares of true and false sentences by verdict, a row for each set."""
    columns = [
        "sentences",
        "pairs",
        "true: not contradicted ↑",
        "false: contradicted ↑",
        "false: pass ↓",
        "false: rest on the documents ↓",
    ]
    rows = []
    for name, verdicts in sets.items():
        contradicted = np.array([v.contradicted for v in verdicts])  # (N, 2)
        rests = np.array([v.rests for v in verdicts])  # (N, 2)
        passing = rests[:, 1] & ~contradicted[:, 1]
        figures = [1 - contradicted[:, 0].mean(), contradicted[:, 1].mean(), passing.mean(), rests[:, 1].mean()]
        rows.append([name, str(len(verdicts)), *(f"{figure:.2f}" for figure in figures)])
    return markdown_table(columns, rows)
