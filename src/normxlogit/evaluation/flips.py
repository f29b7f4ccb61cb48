"""Words to flip: how many words of the highest scores are deleted until the prediction changes.

A measure that needs no share and no level: of all texts, those whose prediction is another after one, two, three or
six words are deleted from the text, the highest scored first.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ..explainer import Explainer
from ..inputs.encoding import Encoding
from ..pipeline.verification import Answers, parts_of
from ..results.attribution import Attribution

__all__ = ["COUNTS", "MOST", "words_to_flip"]

COUNTS = (1, 2, 3, 6)
"""Numbers of deleted words that tables show."""

MOST = 6
"""Most words that are deleted."""


def words_to_flip(
    explainer: Explainer, encodings: Sequence[Encoding], attributions: Sequence[Attribution]
) -> npt.NDArray[np.float64]:
    """Return how many words are deleted until the prediction changes, (N,): infinity for more than `MOST`.

    Args:
        explainer: The model, whose predictions are labels.
        encodings: The N texts as it reads them.
        attributions: Their explanations, one score for each token.
    """
    model = explainer._model
    answers = Answers(model, encodings, attributions)
    keys: list[tuple[int, tuple[int, ...]]] = []
    for text, attribution in enumerate(attributions):
        order = sorted(parts_of(model, attribution), key=lambda part: -part.score)  # stable: ties go to the earlier one
        keys += [
            (text, tuple(sorted(token for part in order[:count] for token in part.tokens)))
            for count in range(min(MOST, len(order)) + 1)
        ]
    counts = np.full(len(attributions), np.inf)  # (N,)
    first: dict[int, object] = {}
    removed = dict.fromkeys(range(len(attributions)), -1)
    for (text, _), answer in zip(keys, answers(keys), strict=True):
        removed[text] += 1
        original = first.setdefault(text, answer.outcome)
        if answer.outcome != original:
            counts[text] = min(counts[text], removed[text])
    return counts
