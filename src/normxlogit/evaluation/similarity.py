"""Do the tokens that a method names matter for a cosine? It is measured with one token of a text masked at a time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..errors import DataError
from ..explainer import Explainer
from ..methods import Method, method_named
from ..results.similarity import Similarity
from .statistics import Interval, mean_interval, rank_correlation

__all__ = ["SimilarityResult", "evaluate_similarity", "similarity_table"]

LEAST = 3
"""Tokens that a text must have for its ranking to say anything."""

REFERENCE = "occlusion"

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class SimilarityResult:
    """How well a method ranks the tokens of N texts; means over them with 95% bootstrap intervals over pairs.

    Attributes:
        method: What was measured.
        texts: N, two for each pair but for short ones.
        spearman: Mean rank correlation with leave-one-out over the tokens of a text, and its interval.
        agrees: Share of texts whose first token is leave-one-out's, and its interval.
        drop: Mean loss of the cosine when the first token is masked, and its interval.
        passes: What it costs, as the registry says.
    """

    method: str
    texts: int
    spearman: Interval
    agrees: Interval
    drop: Interval
    passes: str


def evaluate_similarity(
    explainer: Explainer,
    pairs: Sequence[tuple[str, str]],
    methods: Sequence[str | Method],
    *,
    seed: int = 0,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> list[SimilarityResult]:
    """Compare methods with leave-one-out on the tokens of both texts of each pair.

    Args:
        explainer: An embedding model.
        pairs: Texts that are compared.
        methods: What to measure; leave-one-out itself comes first.
        seed: Of the bootstrap.
        on_progress: Called with what is done, pairs done and pairs in all.

    Raises:
        DataError: If no text has three tokens.
    """
    chosen = [method_named(method) for method in dict.fromkeys([REFERENCE, *methods])]
    found: dict[str, list[Array]] = {method.spec: [] for method in chosen}
    for number, (first, second) in enumerate(pairs, start=1):
        removed = explainer.similarity(first, second, method=REFERENCE)
        sides = [places for text in (0, 1) if len(places := _places(removed, text)) >= LEAST]
        for method in chosen:
            own = removed if method.spec == REFERENCE else explainer.similarity(first, second, method=method)
            rows = [_measured(own.scores[places], removed.scores[places]) for places in sides]
            if rows:
                found[method.spec].append(np.array(rows))  # (1 or 2, 3)
        if on_progress is not None:
            on_progress("pairs", number, len(pairs))
    if not any(found.values()):
        raise DataError(f"no text has {LEAST} tokens")
    return [_summarised(method, found[method.spec], seed) for method in chosen]


def similarity_table(results: Sequence[SimilarityResult]) -> str:
    """Return a Markdown table, leave-one-out first and the others by rank correlation with it."""
    first, others = results[0], sorted(results[1:], key=lambda r: -r.spearman[0])
    lines = [
        "| method | passes | Spearman ↑ | first token as leave-one-out's ↑ | its drop ↑ |",
        "|---|---|---:|---:|---:|",
    ]
    for r in (first, *others):
        shown = " | ".join(f"{m:.2f} ({low:.2f} to {high:.2f})" for m, low, high in (r.spearman, r.agrees, r.drop))
        lines.append(f"| {r.method} | {r.passes} | {shown} |")
    return "\n".join(lines) + "\n"


def _places(s: Similarity, text: int) -> list[int]:
    """Return the tokens of one of the two texts, special ones left out."""
    return [i for i, sequence in enumerate(s.sequence_ids) if sequence == text and not s.special_tokens_mask[i]]


def _measured(scores: npt.NDArray[np.float32], removed: npt.NDArray[np.float32]) -> tuple[float, float, float]:
    """Return rank correlation, whether the first tokens are the same, and what the first one is worth."""
    first = scores.argmax()
    return rank_correlation(scores, removed), float(first == removed.argmax()), float(removed[first])


def _summarised(method: Method, pairs: Sequence[Array], seed: int) -> SimilarityResult:
    """Average over texts; the bootstrap draws pairs, whose texts belong together."""
    sums = np.array([rows.sum(0) for rows in pairs])  # (N, 3)
    counts = np.array([len(rows) for rows in pairs])  # (N,)
    rho, agrees, drop = (mean_interval(column, seed, counts) for column in sums.T)
    return SimilarityResult(method.spec, int(counts.sum()), rho, agrees, drop, method.info.passes)
