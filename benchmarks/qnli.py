"""Questions with documents of several sentences, made of QNLI's rows ("question", "sentence", "label")."""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from normxlogit.errors import DataError
from normxlogit.grounding.evaluation.sources import Question


def qnli_questions(rows: Sequence[Mapping[str, Any]], count: int, seed: int = 0, sentences: int = 7) -> list[Question]:
    """Draw questions of QNLI, each with a document in which one of the sentences answers it.

    Args:
        rows: QNLI's rows; label 0 means that the sentence answers the question.
        count: Most questions. With the same seed, a smaller count draws the first questions of a larger one.
        seed: Chooses questions, the other sentences, and the order.
        sentences: Sentences of a document.

    Raises:
        DataError: If there are too few rows.
    """
    random = np.random.default_rng(seed)
    answered = [index for index, row in enumerate(rows) if row["label"] == 0]
    if not answered or len(rows) < sentences:
        raise DataError(f"a document of {sentences} sentences needs as many rows, and one with label 0")
    questions = []
    for index in random.permutation(answered)[:count].tolist():
        question, evidence = str(rows[index]["question"]), _one_line(rows[index])
        shuffled = [rows[other] for other in random.permutation(len(rows)).tolist()]
        others = (_one_line(row) for row in shuffled if row["label"] != 0 or row["question"] != question)
        distinct = dict.fromkeys(text for text in others if text != evidence)
        document = [evidence, *islice(distinct, sentences - 1)]
        order = random.permutation(len(document)).tolist()
        questions.append(Question(question, {"text": "\n\n".join(document[place] for place in order)}))
    return questions


def _one_line(row: Mapping[str, Any]) -> str:
    """Return the sentence of a row, its words with one space between them."""
    return " ".join(str(row["sentence"]).split())
