"""Needles: one sentence of a long document that holds an answer, at several places; is it the first source?

The other sentences are a haystack of RULER (Hsieh et al., 2024, arXiv 2404.06654): either needles themselves, each of
which gives another thing a number, or sentences without numbers, which say where things stand. One thing is asked for,
and a case counts where its number is the model's own choice. What is measured is kept in a file at once, so that the
table is printed again without the model.
"""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from normxlogit.errors import DataError
from normxlogit.evaluation.report import markdown_table
from normxlogit.evaluation.runs import OnProgress, with_progress
from normxlogit.evaluation.statistics import interval_text, mean_interval
from normxlogit.explainer import Explainer
from normxlogit.grounding.citations.cited_answer import read_answered

from .chains import distributions
from .kept_rows import check_reader, kept_rows

MEASURED = Path(__file__).with_name("needles.jsonl")
"""Where SmolLM2-135M finds the needles."""

COLOURS = ("red", "blue", "green", "yellow", "white", "black", "brown", "grey", "pink", "purple", "orange", "silver")
THINGS = ("box", "bag", "door", "house", "boat", "lamp", "chair", "book", "bridge", "train", "garden", "clock", "coat")

Haystack = Literal["numbers", "places"]
"""What the other sentences say: the numbers of other things, or where things stand."""

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
        haystack: What the other sentences say.
        sentences: How many the document has.
        part: In which part of it the sentence is.
        right: Whether the number is the model's own choice; if not, nothing else was measured.
        evidence: Whether the sentence is first by the evidence of `cite`.
        sums: The same by the scores of all the answer's tokens alike.
    """

    number: int
    haystack: Haystack
    sentences: int
    part: int
    right: bool
    evidence: bool = False
    sums: bool = False


def write_needles(count: int, sentences: int, haystack: Haystack = "numbers", seed: int = 0) -> list[Needle]:
    """Write documents with a needle in each part in turn.

    Args:
        count: How many.
        sentences: How many sentences each has, at most 156.
        haystack: What the other sentences say.
        seed: Draws things, numbers and places.
    """
    rng = random.Random(seed)  # noqa: S311
    return [_needle(rng, sentences, haystack, number % PLACES) for number in range(count)]


def _needle(rng: random.Random, count: int, haystack: Haystack, part: int) -> Needle:
    """Write a document with its needle in one part of it."""
    things = [" ".join(pair) for pair in rng.sample(list(product(COLOURS, THINGS)), count)]
    numbers = rng.sample(range(100, 1000), count)
    numbered = [f"The number of the {thing} is {number}." for thing, number in zip(things, numbers, strict=True)]
    place = rng.randrange(part * count // PLACES, (part + 1) * count // PLACES)
    sentences = numbered if haystack == "numbers" else _places(rng, things)
    sentences[place] = numbered[place]
    question = f"What is the number of the {things[place]}?"
    return Needle(tuple(sentences), place, part, question, numbered[place])


def _places(rng: random.Random, things: Sequence[str]) -> list[str]:
    """Return sentences that say beside which other thing each of the things stands."""
    neighbours = rng.sample(things, len(things))
    return [f"The {thing} stands beside the {neighbour}." for thing, neighbour in zip(things, neighbours, strict=True)]


def measure(
    explainer: Explainer,
    count: int,
    sentences: int,
    file: Path,
    haystack: Haystack = "numbers",
    on_progress: OnProgress | None = None,
) -> None:
    """Cite each answer that is the model's own choice, and compare the first source with the needle.

    Each row is added to the file at once; rows that it has are not measured again.

    Args:
        explainer: An explainer of a language model.
        count: How many documents.
        sentences: How many sentences each has.
        file: JSON lines.
        haystack: What the other sentences say.
        on_progress: Called after each document.

    Raises:
        DataError: If another model measured what the file has.
    """
    check_reader(explainer.language_model, file)
    known = {(found.haystack, found.sentences, found.number) for found in load_measured(file)}
    needles = write_needles(count, sentences, haystack)
    for number, needle in with_progress("needles", needles, on_progress):
        if (haystack, sentences, number) not in known:
            found = Found(number, haystack, sentences, needle.part, **_first_sources(explainer, needle))
            with file.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(found._asdict()) + "\n")


def load_measured(file: Path) -> list[Found]:
    """Read what was measured; nothing of a file that is not there."""
    return kept_rows(file, Found, "not a measured needle")


def _first_sources(explainer: Explainer, needle: Needle) -> dict[str, bool]:
    """Return fields of `Found`: whether the number is the model's own choice, and if so by what the needle is first."""
    documents = {"document": " ".join(needle.sentences)}
    completed = read_answered(explainer.language_model, needle.question, documents, answer=needle.answer).completed
    value = needle.answer.rstrip(".").rsplit(" ", 1)[1]
    ids, logs = distributions(explainer, completed.encoding.text or "", f"{value}.")
    if not (logs.argmax(-1) == ids)[:-1].all():  # without the full stop
        return {"right": False}
    cited = explainer.cite(needle.question, documents, answer=needle.answer, verify=None, progress=False)
    is_first = {"right": True}
    for name, a in (("evidence", cited.evidence), ("sums", cited.attribution)):
        first_source = int(a.scores[:, cited.sources].sum(0).argmax())
        is_first[name] = first_source == needle.place
    return is_first


def report(file: Path) -> str:
    """Return how often the sentence with the answer is first, by the document and by the place of the sentence.

    Raises:
        DataError: If nothing was measured.
    """
    results = load_measured(file)
    if not results:
        raise DataError(f"{file}: nothing was measured; name a model with --model")
    edges = [f"{part / PLACES:.0%}" for part in range(PLACES + 1)]
    parts = {part: f"{edges[part]} to {edges[part + 1]}" for part in range(PLACES)}
    lengths = {kind: f"{kind[1]}, {kind[0]}" for kind in sorted({_kind(found) for found in results})}
    by_length = _table("sentences, and what the others say", lengths, _kind, results)
    by_place = _table("the sentence is at", parts, _part, results)
    return f"By document\n\n{by_length}\nBy place\n\n{by_place}"


def _kind(found: Found) -> tuple[Haystack, int]:
    """Return what kind of document a case has."""
    return found.haystack, found.sentences


def _part(found: Found) -> int:
    """Return in which part of its document the sentence of a case is."""
    return found.part


def _table(title: str, labels: Mapping[Any, str], group_of: Callable[[Found], Any], results: Sequence[Found]) -> str:
    """Return how often the sentence with the answer is the first source in each group of cases, and in all.

    Args:
        title: Of the column of labels.
        labels: What stands before each group.
        group_of: Returns the group of a case.
        results: All cases.
    """
    lines = [
        [label, *_cells([found for found in results if group_of(found) == group])] for group, label in labels.items()
    ]
    columns = [title, "documents", "answered rightly", "first by the evidence ↑", "first by sums ↑"]
    return markdown_table(columns, [*lines, ["all", *_cells(results)]])


def _cells(results: Sequence[Found]) -> list[str]:
    """Return how many cases there are and how many count, and of these how often the needle is first."""
    right = [found for found in results if found.right]
    if not right:
        return [str(len(results)), "0", "-", "-"]
    firsts = np.array([(found.evidence, found.sums) for found in right], np.float64)  # (n, 2)
    return [str(len(results)), str(len(right)), *(interval_text(mean_interval(values)) for values in firsts.T)]
