"""Named words: whether a method puts the words first that a person would name for a prompt's next token.

The prompts were written with their words before any score was seen. Half of them hold a distractor: two names or values
of which one matters, each prompt once with the one and once with the other, so that neither position nor rarity tells
which. A ranking that reads nothing, the rarest token first, is the baseline.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from normxlogit.errors import NormXLogitError
from normxlogit.evaluation.report import markdown_table
from normxlogit.evaluation.runs import OnProgress, with_progress
from normxlogit.evaluation.statistics import mean_interval
from normxlogit.explainer import Explainer
from normxlogit.methods import method_named
from normxlogit.results.attribution import Attribution

PROMPTS = Path(__file__).with_name("named_words.jsonl")

RAREST = "rarest token"
"""The baseline: numbers of tokens, which tokenizers give in the order of frequency."""

FIRST = (1, 2)
"""How many of the first words are looked at."""


@dataclass(frozen=True)
class NamedPrompt:
    """A prompt and the words that a person would name.

    Attributes:
        words: The words, any of them.
        distractor: A word of the same kind that does not matter; None for plain prompts.
    """

    prompt: str
    words: tuple[str, ...]
    distractor: str | None


@dataclass(frozen=True)
class NamedWords:
    """What a method puts first.

    Attributes:
        method: Its name.
        plain: Whether a named word is the first, and among the first two, of each plain prompt, (N, 2).
        distracted: The same of prompts with a distractor.
        fooled: Whether the distractor is the first word of these.
    """

    method: str
    plain: np.ndarray
    distracted: np.ndarray
    fooled: np.ndarray


def load_prompts(split: str) -> list[NamedPrompt]:
    """Read the prompts of a split, "train" or "validation"; both halves of a pair are in one."""
    rows = map(json.loads, PROMPTS.read_text(encoding="utf-8").splitlines())
    return [NamedPrompt(row["prompt"], tuple(row["words"]), row["distractor"]) for row in rows if row["split"] == split]


def evaluate_named_words(
    explainer: Explainer, prompts: Sequence[NamedPrompt], methods: Sequence[str], on_progress: OnProgress | None = None
) -> list[NamedWords]:
    """Rank the words before the last token of each prompt by each method, and by the rarest token."""
    results = []
    for method in methods:
        rankings = [
            _ranked(_explained(explainer, prompt.prompt, method))
            for _, prompt in with_progress(method, prompts, on_progress)
        ]
        results.append(_summary(method, prompts, rankings))
    by_rarity = []
    for prompt in prompts:
        a = explainer(prompt.prompt, method="input-norm")
        words = [word for word in a.words() if a.reads_at not in word.tokens]
        rarest_ids = [max(a.token_ids[token] for token in word.tokens) for word in words]
        rarest_first = np.argsort(-np.array(rarest_ids), kind="stable").tolist()
        by_rarity.append([words[place].text for place in rarest_first])
    return [*results, _summary(RAREST, prompts, by_rarity)]


def _explained(explainer: Explainer, prompt: str, method: str) -> Attribution:
    """Explain the next token of a prompt by a method, whose name stands in its errors."""
    try:
        return explainer(prompt, method=method_named(method))
    except NormXLogitError as error:
        raise type(error)(f"{method}: {error}") from None


def _ranked(a: Attribution) -> list[str]:
    """Return the words before the token at which the answer is read, the highest scored first."""
    words = [word for word in a.words() if a.reads_at not in word.tokens]
    return [word.text for word in sorted(words, key=lambda word: -float(word.score))]


def named_among(prompt: NamedPrompt, ranking: Sequence[str], count: int) -> bool:
    """Return whether a named word is among the first of a ranking of the prompt's words."""
    return bool({word.casefold() for word in prompt.words} & set(_letters(ranking)[:count]))


def _letters(ranking: Sequence[str]) -> list[str]:
    """Return the words of a ranking without punctuation, and without what is nothing else."""
    return [re.sub(r"\W", "", word).casefold() for word in ranking if re.search(r"\w", word)]


def _summary(method: str, prompts: Sequence[NamedPrompt], rankings: Sequence[Sequence[str]]) -> NamedWords:
    """Return what a method puts first.

    Args:
        method: Its name.
        prompts: The prompts.
        rankings: The words of each, as the method ranks them.
    """
    plain, distracted, fooled = [], [], []
    for prompt, ranking in zip(prompts, rankings, strict=True):
        is_named = [named_among(prompt, ranking, count) for count in FIRST]
        if prompt.distractor is None:
            plain.append(is_named)
        else:
            distracted.append(is_named)
            fooled.append(_letters(ranking)[:1] == [prompt.distractor.casefold()])
    return NamedWords(method, np.array(plain), np.array(distracted), np.array(fooled))


def named_words_table(results: Sequence[NamedWords]) -> str:
    """Return a Markdown table with 95% intervals over prompts, the first word of plain prompts first."""

    def share(values: np.ndarray) -> str:
        mean, low, high = mean_interval(values.astype(float))
        return f"{mean:.2f} ({low:.2f} to {high:.2f})"

    columns = ["method", "named word first ↑", "among the first two ↑"]
    columns += ["with a distractor: first ↑", "among the first two ↑", "the distractor first ↓"]
    rows = [
        [r.method, *(share(column) for column in (*r.plain.T, *r.distracted.T)), share(r.fooled)]
        for r in sorted(results, key=lambda r: -float(r.plain[:, 0].mean()))
    ]
    return markdown_table(columns, rows)
