"""Needles: one sentence of a long document that holds an answer, at several places; is it the first source?

The document is made of needles, as in RULER's haystacks with many keys (Hsieh et al., 2024, arXiv 2404.06654): each
sentence gives another thing a number, and one thing is asked for. A case counts where the number is the model's own
choice. What is measured is kept in a file at once, so that the table is printed again without the model.
"""

import json
import random
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from normxlogit.errors import DataError
from normxlogit.evaluation.datasets import parsed_rows
from normxlogit.evaluation.report import markdown_table
from normxlogit.evaluation.runs import OnProgress, with_progress
from normxlogit.evaluation.statistics import interval_text, mean_interval
from normxlogit.explainer import Explainer
from normxlogit.grounding.citations.cited_answer import read_answered

from .chains import distributions
from .real_grounding import check_reader

MEASURED = Path(__file__).with_name("needles.jsonl")
"""Where SmolLM2-135M finds the needles."""

COLOURS = ("red", "blue", "green", "yellow", "white", "black", "brown", "grey", "pink", "purple", "orange", "silver")
THINGS = ("box", "bag", "door", "house", "boat", "lamp", "chair", "book", "bridge", "train", "garden", "clock", "coat")

PLACES = 5
"""Into how many parts documents are divided, in one of which the needle is."""


class Needle(NamedTuple):
    """A document with one sentence that answers a question.

    Attributes:
        sentences: The sentences of the document.
        place: The index of the one that answers.
        part: In which part of the document it is, from 0 to `PLACES` - 1.
        question: The question.
        answer: The answer, a sentence.
    """

    sentences: tuple[str, ...]
    place: int
    part: int
    question: str
    answer: str


class Found(NamedTuple):
    """Whether the sentence with the answer is the first source of one case.

    Attributes:
        number: Which of the documents of this length.
        sentences: How many the document has.
        part: In which part of it the sentence is.
        right: Whether the number is the model's own choice; if not, nothing else was measured.
        evidence: Whether the sentence is first by the evidence of `cite`.
        sums: The same by the scores of all the answer's tokens alike.
    """

    number: int
    sentences: int
    part: int
    right: bool
    evidence: bool = False
    sums: bool = False


def write_needles(count: int, sentences: int, seed: int = 0) -> list[Needle]:
    """Write documents with a needle in each part in turn.

    Args:
        count: How many.
        sentences: How many sentences each has, at most 156.
        seed: Draws things, numbers and places.
    """
    rng = random.Random(seed)  # noqa: S311
    return [_needle(rng, sentences, number % PLACES) for number in range(count)]


def _needle(rng: random.Random, count: int, part: int) -> Needle:
    things = [" ".join(pair) for pair in rng.sample(list(product(COLOURS, THINGS)), count)]
    numbers = rng.sample(range(100, 1000), count)
    place = rng.randrange(part * count // PLACES, (part + 1) * count // PLACES)
    sentences = [f"The number of the {thing} is {n}." for thing, n in zip(things, numbers, strict=True)]
    question = f"What is the number of the {things[place]}?"
    return Needle(tuple(sentences), place, part, question, sentences[place])


def measure(
    explainer: Explainer, count: int, sentences: int, file: Path, on_progress: OnProgress | None = None
) -> None:
    """Cite each answer that is the model's own choice, and compare the first source with the needle.

    Each row is added to the file at once; rows that it has are not measured again.

    Args:
        explainer: An explainer of a language model.
        count: How many documents.
        sentences: How many sentences each has.
        file: JSON lines.
        on_progress: Called after each document.

    Raises:
        DataError: If another model measured what the file has.
    """
    check_reader(explainer.language_model, file)
    known = {(found.sentences, found.number) for found in load_measured(file)}
    needles = write_needles(count, sentences)
    for number, needle in with_progress("needles", needles, on_progress):
        if (sentences, number) not in known:
            found = _found(explainer, needle, number)
            with file.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(found._asdict()) + "\n")


def load_measured(file: Path) -> list[Found]:
    """Read what was measured; nothing of a file that is not there."""
    return parsed_rows(file, lambda row: Found(**row), "not a measured needle") if file.exists() else []


def _found(explainer: Explainer, needle: Needle, number: int) -> Found:
    """Return where the needle is among the sources, if the number is the model's own choice."""
    asked = needle.question, {"document": " ".join(needle.sentences)}
    completed = read_answered(explainer.language_model, *asked, answer=needle.answer).completed
    value = needle.answer.rstrip(".").rsplit(" ", 1)[1]
    ids, logs = distributions(explainer, completed.encoding.text or "", f"{value}.")
    if not (logs.argmax(-1) == ids)[:-1].all():  # without the full stop
        return Found(number, len(needle.sentences), needle.part, right=False)
    cited = explainer.cite(*asked, answer=needle.answer, verify=None, progress=False)
    firsts = [int(a.scores[:, cited.sources].sum(0).argmax()) for a in (cited.evidence, cited.attribution)]
    return Found(number, len(needle.sentences), needle.part, True, *(first == needle.place for first in firsts))


def report(file: Path) -> str:
    """Return the tables of what was measured, one for each number of sentences.

    Raises:
        DataError: If nothing was.
    """
    results = load_measured(file)
    if not results:
        raise DataError(f"{file}: nothing was measured; name a model with --model")
    lengths = sorted({found.sentences for found in results})
    return "\n".join(table([found for found in results if found.sentences == length]) for length in lengths)


def table(results: Sequence[Found]) -> str:
    """Return for each part of documents of one length how often the sentence with the answer is the first source."""
    edges = [f"{part / PLACES:.0%}" for part in range(PLACES + 1)]
    lines = []
    for part in range(PLACES):
        of_part = [found for found in results if found.part == part]
        lines.append([f"{edges[part]} to {edges[part + 1]}", *_cells(of_part)])
    columns = ["the sentence is at", "documents", "answered rightly", "first by the evidence ↑", "first by sums ↑"]
    return f"Of {results[0].sentences} sentences\n\n{markdown_table(columns, [*lines, ['all', *_cells(results)]])}"


def _cells(results: Sequence[Found]) -> list[str]:
    """Return how many cases there are and how many count, and of these how often the needle is first."""
    right = [found for found in results if found.right]
    if not right:
        return [str(len(results)), "0", "-", "-"]
    firsts = np.array([(found.evidence, found.sums) for found in right], np.float64)  # (n, 2)
    return [str(len(results)), str(len(right)), *(interval_text(mean_interval(values)) for values in firsts.T)]
