"""True sentences about documents, each with a false one in which a value is exchanged."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from normxlogit.errors import DataError
from normxlogit.evaluation.grounding.cases import ENTITY, SENTENCES
from normxlogit.evaluation.grounding.questions import qnli_documents, read_lines

from .next_token import split_sentences

WRITTEN = Path(__file__).with_name("swapped_sentences.jsonl")
"""120 pairs written by hand, half of them for choosing settings, the other half about ten other domains."""

CORPUS_QUESTION = "What does the text say?"
"""The question put to sentences of a corpus, which answer none of their own."""

WORDS = (8, 25)
"""Words of the sentences that are taken from QNLI and from a corpus."""

PLAIN = re.compile(r"[A-Z]\w*[^\"“”‘`():]*\.")
"""Sentences of a corpus that are taken: not those in which somebody speaks, where capitals begin words inside."""

Split = Literal["train", "validation"]


class Pair(NamedTuple):
    """A true and a false sentence about the same documents.

    Attributes:
        kind: What is exchanged, such as "number", "name" or "opposite".
    """

    question: str
    documents: Mapping[str, str]
    true: str
    false: str
    kind: str


def pair_sets(split: Split, qnli: Path | None, corpus: Path | None, limit: int, seed: int = 0) -> dict[str, list[Pair]]:
    """Return the pairs of a split by where they come from: those written by hand, and those of the files given.

    Args:
        split: Which of the written pairs, and which lines of the corpus.
        qnli: QNLI's rows of this split; None for none.
        corpus: A corpus; None for none.
        limit: Most pairs of each file.
        seed: Draws documents and values.

    Raises:
        DataError: If a file cannot be read.
    """
    sets = {"written by hand, ten domains": written_pairs(split)}
    if qnli is not None:
        sets["QNLI, a value exchanged"] = qnli_pairs(qnli, limit, seed)
    if corpus is not None:
        sets["corpus, a value exchanged"] = corpus_pairs(corpus, limit, split, seed)
    return sets


def written_pairs(split: Split) -> list[Pair]:
    """Read the sentences that were written by hand."""
    rows = read_lines(WRITTEN, dict, "not a pair of sentences")
    return [Pair(**{name: row[name] for name in Pair._fields}) for row in rows if row["split"] == split]


def qnli_pairs(path: Path, limit: int, seed: int = 0) -> list[Pair]:
    """Make pairs of QNLI's sentences that answer: the false one has a value of another sentence of its document.

    Args:
        path: QNLI's rows.
        limit: Most pairs.
        seed: Draws documents and values.

    Raises:
        DataError: If the file cannot be read, or no sentence has a value to exchange.
    """
    rows = [row for row in read_lines(path, dict, "not a row of QNLI") if _fits(str(row["sentence"]))]
    random = np.random.default_rng(seed)
    drawn = qnli_documents(rows, len(rows), seed, SENTENCES)
    return _pairs(path, [(d.question, d.sentences, d.place) for d in drawn], limit, random)


def corpus_pairs(path: Path, limit: int, split: Split, seed: int = 0) -> list[Pair]:
    """Make pairs of a corpus' sentences, as `qnli_pairs` does; the two splits have no line in common.

    Args:
        path: A text file with a sentence a line, compressed or not.
        limit: Most pairs.
        split: Which lines.
        seed: Draws documents and values.

    Raises:
        DataError: If the file cannot be read, or no sentence has a value to exchange.
    """
    random = np.random.default_rng(seed)
    lines = [line for line in split_sentences(path, split) if PLAIN.fullmatch(line)]
    lines = [line for line in lines if _fits(line) and ENTITY.search(line)]
    documents = []
    with_numbers = [line for line in lines if any(character.isdecimal() for character in line)]
    numbered = set(with_numbers)
    for having in (with_numbers, [line for line in lines if line not in numbered]):
        count = len(having) // SENTENCES
        order = random.permutation(len(having))[: count * SENTENCES].reshape(count, SENTENCES).tolist()
        documents.append([[having[i] for i in each] for each in order])
    alternately = (texts for both in zip(*documents, strict=False) for texts in both)
    asked = [(CORPUS_QUESTION, texts, int(random.integers(SENTENCES))) for texts in alternately]
    return _pairs(path, asked, limit, random)


def _pairs(
    path: Path, documents: Sequence[tuple[str, list[str], int]], limit: int, random: np.random.Generator
) -> list[Pair]:
    """Exchange a value of each document's sentence at a place for one of its other sentences, numbers before names."""
    pairs = []
    for question, sentences, place in documents:
        evidence, rest = sentences[place], " ".join([*sentences[:place], *sentences[place + 1 :]])
        values = sorted(ENTITY.finditer(evidence), key=lambda match: _kind(match.group()) == "name")  # a stable sort
        for match in values:
            kind = _kind(match.group())
            others = [e for e in ENTITY.findall(rest) if _kind(e) == kind and e not in evidence]
            if others:
                other = others[int(random.integers(len(others)))]
                false = evidence[: match.start()] + other + evidence[match.end() :]
                pairs.append(Pair(question, {"text": "\n\n".join(sentences)}, evidence, false, kind))
                break
        if len(pairs) == limit:
            break
    if not pairs:
        raise DataError(f"{path}: no sentence with a number or a name that another sentence has, too")
    return pairs


def _fits(sentence: str) -> bool:
    return WORDS[0] <= len(sentence.split()) <= WORDS[1]


def _kind(entity: str) -> str:
    """Return what a value is: years change places with years, numbers with numbers, names with names."""
    if re.fullmatch(r"1\d{3}|20\d{2}", entity):
        return "date"
    return "number" if entity[0].isdecimal() else "name"
