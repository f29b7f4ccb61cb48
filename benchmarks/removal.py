"""Are words deleted or masked when an explanation is tested: which tells the words that count from others?

The words of the highest scores are removed in both ways, and so are as many drawn at random. A way of removal is good
where the first change the answer and the others do not.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from normxlogit.errors import DataError
from normxlogit.evaluation.flips import COUNTS, delete_words
from normxlogit.evaluation.report import markdown_table
from normxlogit.evaluation.runs import OnProgress, with_progress
from normxlogit.evaluation.statistics import interval_text, mean_interval
from normxlogit.explainer import Explainer
from normxlogit.leave_out.text_answers import TextAnswers

from .next_token import split_sentences

TEXTS_AT_ONCE = 50
"""Texts that are explained together."""

WORDS = (8, 25)
"""Words of the sentences in which one is masked."""

Array = npt.NDArray[np.float64]


class Removed(NamedTuple):
    """What the removal of words does to the answers to N texts.

    Attributes:
        by: "deleted" or "masked".
        highest: After so many of `COUNTS` words of the highest scores: whether the prediction is another, or by how
            much a value is lower, (N, 4).
        random: The same after as many words at random.
    """

    by: str
    highest: Array
    random: Array


def masked_sentences(path: Path, mask: str, limit: int, split: str, seed: int = 0) -> list[str]:
    """Return sentences of a corpus with one word masked, which a masked language model fills in.

    Args:
        path: As in `split_sentences`.
        mask: The mask token.
        limit: Most sentences.
        split: As in `split_sentences`.
        seed: Draws sentences and words.

    Raises:
        DataError: If the file cannot be read, or has no sentence of a fitting length.
    """
    random = np.random.default_rng(seed)
    fewest, most = WORDS
    sentences = [words for words in map(str.split, split_sentences(path, split)) if fewest <= len(words) <= most]
    if not sentences:
        raise DataError(f"{path}: no sentence of {fewest} to {most} words")
    texts = []
    for index in random.permutation(len(sentences))[:limit].tolist():
        words = sentences[index]
        place = int(random.integers(len(words)))
        texts.append(" ".join([*words[:place], mask, *words[place + 1 :]]))
    return texts


def measure(
    explainer: Explainer,
    texts: Sequence[str | tuple[str, str]],
    method: str | None,
    on_progress: OnProgress | None = None,
) -> list[Removed]:
    """Remove words by deletion and by masks.

    Args:
        explainer: A model that has a mask token.
        texts: Texts or pairs.
        method: Which gives the scores; None for the default.
        on_progress: Called with what is done, groups of texts done and groups in all.
    """
    groups = [list(texts[start : start + TEXTS_AT_ONCE]) for start in range(0, len(texts), TEXTS_AT_ONCE)]
    changes: dict[tuple[bool, bool], list[Array]] = {}  # by whether words are masked, and whether they are drawn
    for _, group in with_progress("texts", groups, on_progress):
        encodings = explainer.encode(group)
        for at_random in (False, True):
            results = list(explainer(group, method="random" if at_random else method))
            for masked in (False, True):
                answers = TextAnswers(explainer.task_model, encodings, results, masked=masked)
                deletions = delete_words(answers, results)
                is_value = results[0].target.kind == "value"
                # `flips` is how many words are removed until the prediction changes, (n,).
                changed = (deletions.flips[:, None] <= np.array(COUNTS)).astype(float)  # (n, 4)
                changes.setdefault((masked, at_random), []).append(deletions.falls if is_value else changed)
    joined = {key: np.concatenate(parts) for key, parts in changes.items()}
    return [
        Removed("masked" if masked else "deleted", highest=joined[masked, False], random=joined[masked, True])
        for masked in (False, True)
    ]


def table(results: Sequence[Removed]) -> str:
    """Return what both ways do, and how far the words of the highest scores are ahead of others."""
    columns = [
        "words are",
        "texts",
        *(f"{n} highest, at random" for n in COUNTS),
        *(f"difference, {n} ↑" for n in COUNTS),
    ]
    rows = []
    for result in results:
        means = zip(result.highest.mean(0), result.random.mean(0), strict=True)
        both = [f"{highest:.2f}, {at_random:.2f}" for highest, at_random in means]
        rows.append([result.by, str(len(result.highest)), *both, *_intervals(result.highest - result.random)])
    deleted, masked = results
    gain = (deleted.highest - deleted.random) - (masked.highest - masked.random)  # (N, 4)
    rows.append(["deleted less masked", "", *[""] * len(COUNTS), *_intervals(gain)])
    return markdown_table(columns, rows)


def _intervals(values: Array) -> list[str]:
    """Return the mean of each column over texts, (N, 4), with its interval."""
    return [interval_text(mean_interval(column)) for column in values.T]
