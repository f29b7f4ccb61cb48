"""Pairs of a true and a false sentence about documents, of six kinds of falsehood.

Most are written by hand (`grounding_pairs.jsonl`); others are made of QNLI's sentences for training, and of a corpus'
sentences for the test, by rules that edit a sentence of a document.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from normxlogit.errors import DataError
from normxlogit.evaluation.datasets import parsed_rows

from .next_token import split_sentences

WRITTEN = Path(__file__).with_name("grounding_pairs.jsonl")
FIXED = Path(__file__).with_name("grounding_fixed.jsonl")

Kind = Literal["invented", "name", "number", "negation", "relation", "comparison"]
Split = Literal["train", "test"]

QUESTIONS = ("What do the documents say?", "What does the text say?", "Summarise the text in one sentence.")
SYSTEMS = (None, None, "Answer from the text alone.", "You are a helpful assistant.")

WORDS = (8, 25)
"""Words of the sentences that are edited."""

SIZES = (3, 4, 5, 6, 8, 12, 60)
"""Sentences of the documents that are made, in turn: about 60 to 1,500 words."""

PAIRS_OF_DOCUMENT = 4

JOINED_BY = {"en": ", and ", "de": ", und ", "fr": ", et ", "es": ", y "}
"""What joins two sentences."""


class Pair(NamedTuple):
    """A true and a false sentence.

    Attributes:
        kind: What is false.
        question: What is asked.
    """

    kind: str
    true: str
    false: str
    question: str


class Asked(NamedTuple):
    """Pairs about the same documents.

    Attributes:
        split: "train" or "test".
        domain: What the documents are about.
        origin: "written", "QNLI" or "corpus".
        language: Two letters.
        system: A system message, or None.
    """

    split: str
    domain: str
    origin: str
    language: str
    documents: Mapping[str, str]
    system: str | None
    pairs: list[Pair]


def written() -> list[Asked]:
    """Read the pairs that were written by hand."""
    rows = parsed_rows(WRITTEN, dict, "not pairs of sentences")
    return [_asked(row, "written") for row in rows]


def _asked(row: Mapping[str, Any], origin: str) -> Asked:
    pairs = [Pair(kind, true, false, *(own or [row["question"]])) for kind, true, false, *own in row["pairs"]]
    return Asked(row["split"], row["domain"], origin, row["language"], row["documents"], row.get("system"), pairs)


def made(sentences: Sequence[Sequence[str]], origin: str, split: Split, count: int, seed: int = 0) -> list[Asked]:
    """Make pairs by editing sentences of documents that are drawn from groups of sentences.

    Args:
        sentences: Groups of sentences; those of a group are about one thing, and only one of them gets into a document,
            so that another one is an invention that could be true.
        origin: Where they come from.
        split: What the pairs are for.
        count: Most pairs.
        seed: Draws documents, sentences and edits.
    """
    random = np.random.default_rng(seed)
    order = random.permutation(len(sentences)).tolist()
    documents: list[Asked] = []
    counts = dict.fromkeys(("relation", "comparison", "negation", "name", "number", "invented"), 0)
    while order and sum(counts.values()) < count:
        size = SIZES[len(documents) % len(SIZES)]
        groups, order = [sentences[place] for place in order[:size]], order[size:]
        texts = [group[0] for group in groups]
        text, pairs = "\n\n".join(texts), []
        question = QUESTIONS[int(random.integers(len(QUESTIONS)))]
        for place in random.permutation(len(groups)).tolist()[:PAIRS_OF_DOCUMENT]:
            reworded = _reworded(texts[place], random)
            if not reworded or not WORDS[0] <= len(reworded.split()) <= WORDS[1]:
                continue
            rest = " ".join(other for other in texts if other != texts[place])
            possible = dict(_false(reworded, rest, groups[place], random))
            if possible:
                kind = min(possible, key=lambda kind: counts[kind])
                counts[kind] += 1
                pairs.append(Pair(kind, reworded, possible[kind], question))
        if pairs:
            system = SYSTEMS[int(random.integers(len(SYSTEMS)))]
            documents.append(Asked(split, f"{origin} {len(documents)}", origin, "en", {"text": text}, system, pairs))
    return documents


def of_qnli(path: Path, count: int, seed: int = 0) -> list[Asked]:
    """Make training pairs of QNLI's rows; the sentences of one question are a group."""
    groups: dict[str, list[str]] = {}
    for row in parsed_rows(path, dict, "not a row of QNLI"):
        groups.setdefault(str(row["question"]), []).append(" ".join(str(row["sentence"]).split()))
    pairs = sorted(groups.values(), key=lambda group: -len(group))  # those with another sentence first
    return made([group for group in pairs if PLAIN.fullmatch(group[0])], "QNLI", "train", count, seed)


def of_corpus(path: Path, count: int, seed: int = 0) -> list[Asked]:
    """Make test pairs of a corpus' sentences; a sentence of another line is the invention."""
    lines = [line for line in split_sentences(path, "validation") if PLAIN.fullmatch(line)]
    lines = [line for line in lines if WORDS[0] <= len(line.split()) <= 40]
    if len(lines) < 2:
        raise DataError(f"{path}: no sentences")
    with_names = [line for line in lines if _NAME.search(line)]
    return made(list(zip(with_names, reversed(with_names), strict=True)), "corpus", "test", count, seed)


def compounds(count: int, seed: int = 0) -> list[Asked]:
    """Make pairs of sentences that say two things: pairs written by hand, joined with a true sentence before or behind.

    Args:
        count: Most pairs about the same documents, and every pair of an invention.
        seed: Draws pairs and true sentences.
    """
    random = np.random.default_rng(seed)
    documents: list[Asked] = []
    for asked in written():
        text = " ".join(asked.documents.values())
        pairs: list[Pair] = []
        for place in random.permutation(len(asked.pairs)).tolist():
            pair = asked.pairs[place]
            if len(pairs) >= count and pair.kind != "invented":
                continue
            others = [other.true for other in asked.pairs if other.question == pair.question and other is not pair]
            if not others:
                continue
            beside, is_first = others[int(random.integers(len(others)))], bool(random.integers(2))
            true, false = (
                _joined(sentence, beside, asked.language, text)
                if is_first
                else _joined(beside, sentence, asked.language, text)
                for sentence in (pair.true, pair.false)
            )
            pairs.append(Pair(pair.kind, true, false, pair.question))
        if pairs:
            documents.append(asked._replace(origin="compound", pairs=pairs))
    return documents


def _joined(first: str, second: str, language: str, text: str) -> str:
    """Return two sentences as one; the second keeps its capital if its first word is a name in the text."""
    word = second.split()[0].rstrip(",")
    is_name = re.search(rf"(?<![.!?]\s)(?<!^)\b{re.escape(word)}\b", text) is not None
    return first.rstrip(" .") + JOINED_BY[language] + (second if is_name else second[0].lower() + second[1:])


def _reworded(sentence: str, random: np.random.Generator) -> str:
    """Return a part of a sentence that says less than it, so that no true sentence is a quotation; "" for none."""
    text = re.sub(r"\s*\([^)]*\)", "", sentence)
    if match := _LEADING.match(text):
        text = match.group(1).capitalize() + text[match.end() :]
    elif match := _TRAILING.search(text):
        text = text[: match.start()] + "."
    if len(text.split()) < WORDS[0]:
        text = sentence
    if text == sentence:
        opening = OPENINGS[int(random.integers(len(OPENINGS)))]
        text = opening + text[0].lower() + text[1:] if _COMMON.match(text) else ""
    return text


def _false(true: str, rest: str, group: Sequence[str], random: np.random.Generator) -> Iterator[tuple[Kind, str]]:
    """Yield false sentences by their kind, from a true one.

    Args:
        true: The true sentence.
        rest: The other sentences of its document.
        group: The sentences that are about the same.
        random: Draws.
    """
    others = [text for text in group[1:] if WORDS[0] <= len(text.split()) <= WORDS[1] and text not in rest]
    if others:
        yield "invented", others[0]
    numbers = list(_NUMBER.finditer(true))
    if numbers:
        match = numbers[int(random.integers(len(numbers)))]
        candidates = [n for n in _NUMBER.findall(rest) if n not in true and len(n) == len(match.group())]
        other = candidates[int(random.integers(len(candidates)))] if candidates else _another(match.group(), random)
        yield "number", true[: match.start()] + other + true[match.end() :]
    names = [match for match in _NAME.finditer(true) if match.start() > 0]
    candidates = [name for name in _NAME.findall(rest) if name not in true]
    if names and candidates:
        match = names[int(random.integers(len(names)))]
        yield "name", true[: match.start()] + candidates[int(random.integers(len(candidates)))] + true[match.end() :]
    opening = _OPENING.match(true)
    said = opening.end() if opening else 0
    if negated := re.search(r" (is|was|are|were|can|could|will|would|has|had|may|must) not (?!only)", true[said:]):
        yield "negation", true[: said + negated.end(1)] + " " + true[said + negated.end() :]
    elif auxiliary := re.search(r" (is|was|are|were|can|could|will|would|may|must) (?!not|also|only)", true[said:]):
        yield "negation", true[: said + auxiliary.end()] + "not " + true[said + auxiliary.end() :]
    for word, opposite in OPPOSED:
        if compared := re.search(rf"\b{word}\b", true):
            yield "comparison", true[: compared.start()] + opposite + true[compared.end() :]
            break
    for first, second in pairwise(names):
        between = true[first.end() : second.start()]
        if re.fullmatch(r" (?:was |were |had )?(?:\w+ed|won|beat|became) (?:by |the |from )?", between):
            yield "relation", true[: first.start()] + second.group() + between + first.group() + true[second.end() :]
            break


def _another(number: str, random: np.random.Generator) -> str:
    """Return a number of the same shape with another first digit, and of a long one other last digits."""
    digits = [
        str(int(random.integers(10))) if c.isdecimal() and i >= len(number) - 2 else c for i, c in enumerate(number)
    ]
    changed = "".join(digits)
    return changed if changed != number and not changed.startswith("0") else str(9 - int(number[0]) or 5) + number[1:]


PLAIN = re.compile(r"[A-Z][^\"“”‘`():;?!]*[a-z0-9]\.")
"""Sentences that are taken: not those in which somebody speaks, and not those that are broken off."""

_NUMBER = re.compile(r"(?<![\w.,:/-])\d+(?:,\d{3})*(?![\w/-]|[.,:]\d)")
_NAME = re.compile(r"(?<!^)(?<![.!?]\s)\b[A-Z][a-z]\w+(?: [A-Z][a-z]\w+)*")
_LEADING = re.compile(
    r"(?:In|On|At|After|Before|During|While|When|By|As|Although|For|With|Since) [^,]*, (the|it|he|she|they|a|an)(?= )"
)
_TRAILING = re.compile(r", (?:which|who|where|but|although|while|because|with|including) .*")
_COMMON = re.compile(r"(?:The|A|An|In|On|It|He|She|They|This|That|These|There|His|Her|Its|Their|Some|Many|One) ")
OPENINGS = ("According to the text, ", "It is said that ", "The author writes that ", "In the text, ")
_OPENING = re.compile("|".join((*OPENINGS, "")))
OPPOSED = (
    *(("more than", "less than"), ("less than", "more than"), ("larger", "smaller"), ("smaller", "larger")),
    *(("higher", "lower"), ("lower", "higher"), ("before", "after"), ("(?<!named )after", "before")),
    *(("longer than", "shorter than"), ("older", "younger"), ("better", "worse"), ("largest", "smallest")),
    *(("highest", "lowest"), ("increased", "decreased"), ("the first", "the last"), ("the last", "the first")),
)
