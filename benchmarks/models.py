"""Two models: whether they agree without the words that carry their difference, against as many random words."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from normxlogit import Explainer
from normxlogit.evaluation.report import markdown_table
from normxlogit.evaluation.statistics import mean_interval

COUNTS = (1, 2, 3)
"""How many words are left out."""


@dataclass(frozen=True)
class Agreement:
    """Whether two models that answer differently agree without some words, for each text.

    Attributes:
        words: How many words are left out; texts with fewer words than that and one more are not counted.
        chosen: Without the words that carry the difference.
        random: Without as many random words.
    """

    words: int
    chosen: Sequence[bool]
    random: Sequence[bool]


def measure_agreement(before: Explainer, after: Explainer, texts: Sequence[str], seed: int = 0) -> Iterator[Agreement]:
    """Leave words out of the texts to which two models answer differently.

    Args:
        before: One model.
        after: The other one.
        texts: The texts.
        seed: Draws the random words.

    Yields:
        Whether they agree then, for each of `COUNTS`.
    """
    generator = np.random.default_rng(seed)
    differences = [d for d in after.compare_models(before, texts) if d.changed]
    for count in COUNTS:
        chosen: list[bool] = []
        random: list[bool] = []
        for d in differences:
            words = [word for word in d.words() if any(map(str.isalnum, word.text))]
            if len(words) <= count:
                continue
            ranked = sorted(words, key=lambda word: -word.score)[:count]
            drawn = [words[i] for i in generator.permutation(len(words))[:count]]
            for agreements, removed_words in ((chosen, ranked), (random, drawn)):
                spans = [(word.start, word.end) for word in removed_words]
                (without,) = after.compare_models(before, [d.text], verify=spans)
                agreements.append(without.verified is not None and without.verified.together.changed)
        yield Agreement(count, chosen, random)


def agreement_table(rows: Sequence[Agreement]) -> str:
    """Return the shares of texts on which the models agree, with intervals, as Markdown."""
    cells = []
    for row in rows:
        shares = ("{:.2f} ({:.2f} to {:.2f})".format(*mean_interval(values)) for values in (row.chosen, row.random))
        cells.append([str(row.words), str(len(row.chosen)), *shares])
    return markdown_table(["words left out", "texts", "those that carry it ↑", "random words"], cells)
