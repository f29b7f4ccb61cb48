"""Evaluation on embedding models: do the tokens that a method ranks highest matter for a cosine?"""

from collections.abc import Sequence

from normxlogit.errors import DataError
from normxlogit.evaluation.ranking import FigureColumn, RankingResult, agreement, ranking_table, summarise_ranking
from normxlogit.evaluation.runs import OnProgress, with_progress
from normxlogit.explainer import Explainer
from normxlogit.methods import Method, method_named
from normxlogit.results.attribution import Attribution

LEAST = 3
"""Tokens that a text must have for a ranking of them to be meaningful."""

REFERENCE = "occlusion"


COLUMNS: tuple[FigureColumn, ...] = (
    ("Spearman ↑", "spearman", 2),
    ("first token as leave-one-out's ↑", "agrees", 2),
    ("its drop ↑", "first", 2),
)


def evaluate_similarity(
    explainer: Explainer,
    pairs: Sequence[tuple[str, str]],
    methods: Sequence[str | Method],
    *,
    seed: int = 0,
    on_progress: OnProgress | None = None,
) -> list[RankingResult]:
    """Compare methods with leave-one-out on the tokens of both texts of each pair.

    Args:
        explainer: An embedding model.
        pairs: The pairs of texts.
        methods: What to measure; leave-one-out is added.
        seed: Of the bootstrap.
        on_progress: Called with what is done, pairs done and pairs in all.

    Returns:
        Leave-one-out first, then the methods.

    Raises:
        DataError: If no text has three tokens.
    """
    chosen = [method_named(method) for method in dict.fromkeys([REFERENCE, *methods])]
    rows: dict[str, list[dict[str, float]]] = {method.spec: [] for method in chosen}
    counts = []  # of texts; the bootstrap draws pairs, whose texts belong together
    for _, (first, second) in with_progress("pairs", pairs, on_progress):
        removed = explainer.similarity(first, second, method=REFERENCE)
        texts = [tokens for text in (0, 1) if len(tokens := _tokens(removed, text)) >= LEAST]
        if not texts:
            continue
        counts.append(len(texts))
        for method in chosen:
            result = removed if method.spec == REFERENCE else explainer.similarity(first, second, method=method)
            figures = [agreement(result.scores[tokens], removed.scores[tokens]) for tokens in texts]
            sums = {name: sum(of_text[name] for of_text in figures) for name in figures[0]}  # over the pair's texts
            rows[method.spec].append(sums)
    if not counts:
        raise DataError(f"no text has {LEAST} tokens")
    return [summarise_ranking(method.spec, rows[method.spec], method.info.passes, seed, counts) for method in chosen]


def similarity_table(results: Sequence[RankingResult]) -> str:
    """Return a Markdown table, leave-one-out first and the others by rank correlation with it."""
    return ranking_table(results, COLUMNS, "spearman")


def _tokens(s: Attribution, text: int) -> list[int]:
    """Return the tokens of one of the two texts that are not special."""
    of_text = [token for token, sequence in enumerate(s.units.sequence) if sequence == text]
    return [token for token in of_text if not s.special_tokens_mask[token]]
