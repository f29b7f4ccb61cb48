"""Needles: one sentence of a long document that holds an answer, at several places; is it the first source?

The document is made of needles, as in RULER's haystacks with many keys (Hsieh et al., 2024, arXiv 2404.06654): each
sentence gives another thing a number, and one thing is asked for. A case counts where the number is the model's own
choice.
"""

import random
from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from normxlogit.evaluation.report import markdown_table
from normxlogit.evaluation.runs import OnProgress, with_progress
from normxlogit.evaluation.statistics import interval_text, mean_interval
from normxlogit.explainer import Explainer
from normxlogit.grounding.citations.cited_answer import read_answered

from .chains import distributions

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
        sentences: How many the document has.
        part: In which part of it the sentence is.
        right: Whether the number is the model's own choice; if not, nothing else was measured.
        evidence: Whether the sentence is first by the evidence of `cite`.
        sums: The same by the scores of all the answer's tokens alike.
    """

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


def read(explainer: Explainer, needles: Sequence[Needle], on_progress: OnProgress | None = None) -> list[Found]:
    """Cite each answer that is the model's own choice, and compare the first source with the needle.

    Args:
        explainer: An explainer of a language model.
        needles: The cases.
        on_progress: Called after each case.
    """
    return [_found(explainer, needle) for _, needle in with_progress("needles", needles, on_progress)]


def _found(explainer: Explainer, needle: Needle) -> Found:
    """Return where the needle is among the sources, if the number is the model's own choice."""
    asked = needle.question, {"document": " ".join(needle.sentences)}
    completed = read_answered(explainer.language_model, *asked, answer=needle.answer).completed
    number = needle.answer.rstrip(".").rsplit(" ", 1)[1]
    ids, logs = distributions(explainer, completed.encoding.text or "", f"{number}.")
    if not (logs.argmax(-1) == ids)[:-1].all():  # without the full stop
        return Found(len(needle.sentences), needle.part, right=False)
    cited = explainer.cite(*asked, answer=needle.answer, verify=None, progress=False)
    firsts = [int(a.scores[:, cited.sources].sum(0).argmax()) for a in (cited.evidence, cited.attribution)]
    return Found(len(needle.sentences), needle.part, True, *(first == needle.place for first in firsts))


def table(results: Sequence[Found]) -> str:
    """Return for each part of the document how often the sentence with the answer is the first source."""
    edges = [f"{part / PLACES:.0%}" for part in range(PLACES + 1)]
    lines = []
    for part in range(PLACES):
        of_part = [found for found in results if found.part == part]
        lines.append([f"{edges[part]} to {edges[part + 1]}", *_cells(of_part)])
    columns = ["the sentence is at", "documents", "answered rightly", "first by the evidence ↑", "first by sums ↑"]
    length = np.mean([found.sentences for found in results])
    return f"{length:.0f} sentences a document.\n\n{markdown_table(columns, [*lines, ['all', *_cells(results)]])}"


def _cells(results: Sequence[Found]) -> list[str]:
    """Return how many cases there are and how many count, and of these how often the needle is first."""
    right = [found for found in results if found.right]
    if not right:
        return [str(len(results)), "0", "-", "-"]
    firsts = np.array([(found.evidence, found.sums) for found in right], np.float64)  # (n, 2)
    return [str(len(results)), str(len(right)), *(interval_text(mean_interval(values)) for values in firsts.T)]
