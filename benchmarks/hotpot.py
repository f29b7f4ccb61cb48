"""HotpotQA's questions (Yang et al., 2018, distractor setting): two of ten paragraphs hold the supporting facts."""

import math
import re
from collections.abc import Mapping, Sequence, Set
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from normxlogit import Explainer
from normxlogit.evaluation.datasets import parsed_rows
from normxlogit.grounding.citations.cited_answer import read_answered
from normxlogit.grounding.result import Citations
from normxlogit.pipeline.completions.completed import Completed

from .document_removals import PromptPieces

Array = npt.NDArray[np.float64]

FILE = "hotpotqa.jsonl"


class Question(NamedTuple):
    """A question with ten paragraphs.

    Attributes:
        number: Its row in the data.
        kind: "bridge" or "comparison".
        question: The question.
        answer: The answer.
        documents: The paragraphs by their titles.
        gold: The indices of those with supporting facts.
    """

    number: int
    kind: str
    question: str
    answer: str
    documents: Mapping[str, str]
    gold: tuple[int, ...]

    def holding(self, answer: str) -> list[int]:
        """Return the indices of the gold paragraphs that hold an answer; none of yes or no."""
        texts, words = list(self.documents.values()), words_of(answer)
        if words in (["yes"], ["no"]):
            return []
        return [i for i in self.gold if f" {' '.join(words)} " in f" {' '.join(words_of(texts[i]))} "]


def words_of(text: str) -> list[str]:
    """Return the words of a text in small letters."""
    return re.findall(r"\w+", text.lower())


def load_questions(data: Path) -> list[Question]:
    """Read the questions of HotpotQA.

    Args:
        data: The folder with `hotpotqa.jsonl`.
    """
    rows = parsed_rows(data / FILE, dict, "not a question of HotpotQA")
    return [_question(number, row) for number, row in enumerate(rows)]


def _question(number: int, row: Mapping[str, Any]) -> Question:
    """Return a row of the data as a question; paragraphs without text are left out."""
    texts = {title: "".join(sentences).strip() for title, sentences in row["context"]}
    documents = {title: text for title, text in texts.items() if text}
    titles = {title for title, _ in row["supporting_facts"]}
    gold = tuple(place for place, title in enumerate(documents) if title in titles)
    return Question(number, row["type"], row["question"].strip(), row["answer"], documents, gold)


def shared_words(question: Question, text: str) -> list[float]:
    """Return the sum over the words that each paragraph with its title shares with a text, by rareness, (D,).

    A word in n of the D paragraphs counts log(D / n).

    Args:
        question: The question with its paragraphs.
        text: What they are compared with.
    """
    paragraphs = [set(words_of(f"{title} {document}")) for title, document in question.documents.items()]
    words = sorted(set(words_of(text)))
    counts = {word: sum(word in paragraph for paragraph in paragraphs) for word in words}
    weights = {word: math.log(len(paragraphs) / count) for word, count in counts.items() if count}
    return [sum(weight for word, weight in weights.items() if word in paragraph) for paragraph in paragraphs]


def shared_titles(question: Question, place: int) -> list[float]:
    """Return how far a paragraph and each other one name each other, (D,).

    That is the share of the words of the other's title that stand in the paragraph, and the share of the words of its
    title that stand in the other one.

    Args:
        question: The question with its paragraphs.
        place: The index of the paragraph.
    """
    titles = [words_of(title) for title in question.documents]
    texts = [set(words_of(text)) for text in question.documents.values()]
    return [_share(titles[place], texts[other]) + _share(titles[other], texts[place]) for other in range(len(titles))]


def _share(words: Sequence[str], text: Set[str]) -> float:
    """Return the share of words that are among those of a text."""
    return sum(word in text for word in words) / len(words)


class Prompt:
    """A question with its paragraphs and an answer, as `cite` writes it.

    Args:
        explainer: An explainer of a causal language model.
        question: The question.
        answer: The answer.
        first: The index of the paragraph that `cite` ranks first, if that was measured before.
    """

    def __init__(self, explainer: Explainer, question: Question, answer: str, first: int | None = None) -> None:
        self.explainer = explainer
        self.question = question
        self.answer = answer
        self._first = first
        self.titles = list(question.documents)

    @cached_property
    def completed(self) -> Completed:
        """The tokens of the prompt with the answer."""
        model, documents = self.explainer.language_model, dict(self.question.documents)
        return read_answered(model, self.question.question, documents, answer=self.answer).completed

    def cite(self, *, verify: int = 0, **options: Any) -> Citations:
        """Cite the answer, without leaving out any source if not asked for it."""
        question, documents = self.question.question, dict(self.question.documents)
        return self.explainer.cite(question, documents, answer=self.answer, verify=verify, progress=False, **options)

    @cached_property
    def first(self) -> int:
        """The index of the paragraph that `cite` ranks first."""
        if self._first is not None:
            return self._first
        return self.titles.index(self.cite(verify=1).top_documents(1)[0].name)

    @cached_property
    def units(self) -> list[int]:
        """The paragraph of each sentence of the prompt, (S,)."""
        return [self.titles.index(name.rpartition(":")[0]) for name in self.completed.named_sources]

    @cached_property
    def pieces(self) -> PromptPieces:
        """The prompt, cut where paragraphs begin: a paragraph goes with its title."""
        encoding = self.completed.encoding
        starts, ends = list[int](), [0] * len(self.titles)  # of paragraphs, in characters
        for paragraph, (start, end) in zip(self.units, self.completed.named_sources.values(), strict=True):
            if paragraph == len(starts):  # its first sentence
                starts.append(start - len(self.titles[paragraph]) - 2)  # the title, a colon and a line break
            ends[paragraph] = end
        token_starts = np.array([start for start, _ in encoding.offsets or ()])  # (T,)
        edges = np.searchsorted(token_starts[: self.completed.prompt_tokens], [*starts, ends[-1]]).tolist()
        ids = encoding.ids
        documents = [ids[start:end] for start, end in pairwise(edges)]
        return PromptPieces(ids[: edges[0]], documents, ids[edges[-1] :], len(self.completed.generated_ids))

    def per_sentence(self, token_scores: Array) -> list[float]:
        """Return scores of the prompt's tokens, (T,), summed over each sentence, (S,)."""
        sequence = self.completed.sequenced()
        spans = self.completed.named_sources.values()
        return [float(token_scores[list(sequence.tokens_in(*span, of_answer=False))].sum()) for span in spans]


def is_right(written: str, answer: str) -> bool:
    """Return whether a written answer holds the right one, word for word; a yes or no as its first word."""
    words, right = words_of(written), words_of(answer)
    if right in (["yes"], ["no"]):
        return words[:1] == right
    return f" {' '.join(right)} " in f" {' '.join(words)} "
