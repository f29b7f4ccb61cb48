"""Cases: questions with documents that hold the evidence, lack it, or have other values in its place."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...errors import DataError
from ...inputs.documents.documents import documents_by_name
from .questions import qnli_documents, read_questions

SENTENCES = 3
"""Sentences of the documents made from QNLI."""

ENTITY = re.compile(
    r"\d+(?:[.,]\d+)*"  # a number
    r"|(?<!^)(?<![.!?]\s)\b[A-Z]\w+(?:[ -][A-Z]\w+)*"  # a name: capitalised words, not those that begin a sentence
)

SHORT = 3
"""Words of at most this many letters do not show where an answer comes from."""


class Case(NamedTuple):
    """A question with documents that hold the evidence for its answer or do not.

    Attributes:
        supported: Whether they hold the evidence.
        answer: The answer; None lets the model generate one.
        evidence: The sentence that answers, as it stands in the documents; empty if it is not known.
    """

    question: str
    documents: Mapping[str, str]
    supported: bool
    answer: str | None = None
    evidence: str = ""


def load_cases(path: str | Path, limit: int, seed: int = 0) -> tuple[list[Case], list[str]]:
    """Read cases from JSON lines, and all texts of the file, from which other numbers and names can be drawn.

    Args:
        path: Lines with "question", "documents" (as `cite` takes them), "supported" (true or false) and, if the answer
            was written elsewhere, "answer"; if the sentence that answers is known, "evidence". Or QNLI's rows
            ("question", "sentence", "label"), two cases each: the sentence that answers among others, and another
            sentence in its place.
        limit: Most questions. A question has two cases, a supported and an unsupported one: twice as many are read.
        seed: Draws among QNLI's rows.

    Returns:
        The cases, and the texts.

    Raises:
        DataError: If the file cannot be read; names file and line.
    """
    cases, rows = read_questions(path, _case)
    texts = [text for case in cases for text in case.documents.values()] or [str(row["sentence"]) for row in rows]
    cases = cases[: 2 * limit] or (_qnli_cases(rows, limit, seed) if rows else [])
    if len({case.supported for case in cases}) < 2:
        raise DataError(f"{path}: needs supported and unsupported cases")
    return cases, texts


def _case(row: Mapping[str, Any]) -> Case:
    """Return a line of the file as a case, after checking its types."""
    question, supported, answer, evidence = row["question"], row["supported"], row.get("answer"), row.get("evidence")
    are_texts = isinstance(question, str) and isinstance(answer, str | None) and isinstance(evidence, str | None)
    if not (are_texts and isinstance(supported, bool)):
        raise TypeError("question, answer and evidence are texts, supported is true or false")
    documents = documents_by_name(row["documents"])
    if evidence and not any(evidence in text for text in documents.values()):
        raise ValueError("the evidence does not stand in the documents")
    return Case(question, documents, supported, answer, evidence or "")


def _qnli_cases(rows: Sequence[Mapping[str, Any]], limit: int, seed: int) -> list[Case]:
    """Return two cases for each question drawn from QNLI: with the evidence, and with a spare sentence for it."""
    cases = []
    for question, sentences, evidence_index, spare in qnli_documents(rows, limit, seed, SENTENCES):
        without = [*sentences[:evidence_index], *filter(None, [spare]), *sentences[evidence_index + 1 :]]
        for texts, evidence in ((sentences, sentences[evidence_index]), (without, "")):
            cases.append(Case(question, {"text": "\n\n".join(texts)}, bool(evidence), evidence=evidence))
    return cases


def answers_from_evidence(case: Case, answer: str) -> bool:
    """Return whether an answer has a number or word that only the evidence has in the prompt.

    It stands for a right answer where no answers are given to compare with, as in QNLI.
    """
    without_evidence = " ".join(
        [case.question, *(text.replace(case.evidence, " ") for text in case.documents.values())]
    )
    return bool(_words(case.evidence) & _words(answer) - _words(without_evidence))


def _words(text: str) -> set[str]:
    words = re.findall(r"\w+", text.lower())
    return {word for word in words if len(word) > SHORT or word.isdecimal()}


def swap_evidence(case: Case, answer: str, texts: Sequence[str], seed: int = 0) -> Case | None:
    """Replace the numbers or names of the evidence that the answer repeats by others.

    Args:
        case: A case with evidence.
        answer: An answer to it, which is kept.
        texts: Where other numbers and names are drawn from: one of as many digits, or of as many words.
        seed: Draws among them.

    Returns:
        The case that is not supported any more, or None if the answer has no number or name from the evidence, the
        rest of the prompt has it too, or the texts have no other.
    """
    without_evidence = " ".join(
        [case.question, *(text.replace(case.evidence, " ") for text in case.documents.values())]
    )
    entities = {entity for text in (case.evidence, without_evidence, answer) for entity in ENTITY.findall(text)}
    other_entities = sorted({entity for text in texts for entity in ENTITY.findall(text)} - entities)
    random = np.random.default_rng(seed)
    swapped = case.evidence
    for entity in dict.fromkeys(ENTITY.findall(case.evidence)):
        candidates_alike = [candidate for candidate in other_entities if _shape(candidate) == _shape(entity)]
        if candidates_alike and holds(answer, entity) and not holds(without_evidence, entity):
            swapped = _entity(entity).sub(candidates_alike[int(random.integers(len(candidates_alike)))], swapped)
    if swapped == case.evidence:
        return None
    documents = {name: text.replace(case.evidence, swapped) for name, text in case.documents.items()}
    return Case(case.question, documents, supported=False, answer=answer, evidence=swapped)


def _shape(entity: str) -> str:
    """Return the shape of a value: digits become 0, and the words of a name become A."""
    return re.sub(r"[^\W\d]\w*", "A", re.sub(r"\d", "0", entity) if entity[0].isdecimal() else entity)


def _entity(entity: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(entity)}(?!\w)")


def holds(text: str, entity: str) -> bool:
    """Return whether a text holds a number or name, other than inside a longer one."""
    return _entity(entity).search(text) is not None
