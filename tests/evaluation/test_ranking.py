import numpy as np
import pytest
from scipy.stats import rankdata

from normxlogit.evaluation.ranking import RankingResult, agreement, ranking_table, summarise_ranking
from normxlogit.evaluation.statistics import rank_correlation
from normxlogit.results.storage.schema import plain


def test_a_ranking_is_compared_with_what_is_lost():
    removed = np.array([1.0, 3.0, 2.0])
    found = agreement(np.array([3.0, 1.0, 2.0]), removed)
    ranks = np.corrcoef(rankdata([3, 1, 2]), rankdata([1, 3, 2]))[0, 1]
    assert found == {"agrees": 0, "first": 1, "best": 3, "spearman": pytest.approx(ranks)}
    assert agreement(np.ones(3), removed, "all ") == {"all agrees": 0, "all first": 1, "all best": 3, "all spearman": 0}
    assert rank_correlation(removed, np.ones(3)) == 0, "a constant ranks nothing"


@pytest.mark.parametrize("seed", [0, 4])
def test_means_have_the_percentiles_of_resampled_texts(seed):
    rng = np.random.default_rng(0)
    rows = [dict(zip(("agrees", "first", "best"), rng.random(3).tolist(), strict=True)) for _ in range(20)]
    found = summarise_ranking("m", rows, 2.0, seed)
    draws = np.random.default_rng(seed).integers(0, 20, (2000, 20))
    for name, interval in found.means.items():
        values = np.array([row[name] for row in rows])
        means = values[draws].mean(1)
        assert interval == pytest.approx((values.mean(), *np.quantile(means, [0.025, 0.975])))
    assert (found.texts, found.per_text) == (20, tuple(row["first"] for row in rows))
    assert found.shares["nats"] == pytest.approx(sum(r["first"] for r in rows) / sum(r["best"] for r in rows))


def test_the_table_begins_with_leave_one_out_and_goes_on_with_the_best():
    def result(method, rho, passes):
        low = rho - (0.25 if method == "normxlogit" else 0.1)  # lower than that of a worse one
        means = {"spearman": (rho, low, rho + 0.1), "drop": (1.25, 1.0, 1.5)}
        return RankingResult(method, 4, means, {"nats": 0.984}, passes, ())

    rows = [result("occlusion", 0.3, 12.3456), result("logat", 0.1, None), result("normxlogit", 0.2, "1 + a")]
    columns = [("Spearman ↑", "spearman", 2), ("nats ↑", "nats", 2), ("drop ↑", "drop", 1), ("none", "none", 1)]
    assert ranking_table(rows, columns, "spearman") == (
        "| method | passes | Spearman ↑ | nats ↑ | drop ↑ | none |\n"
        "|---|---:|---:|---:|---:|---:|\n"
        "| occlusion | 12.3 | 0.30 (0.20 to 0.40) | 0.98 | 1.2 (1.0 to 1.5) |  |\n"
        "| normxlogit | 1 + a | 0.20 (-0.05 to 0.30) | 0.98 | 1.2 (1.0 to 1.5) |  |\n"
        "| logat |  | 0.10 (0.00 to 0.20) | 0.98 | 1.2 (1.0 to 1.5) |  |\n"
    )
    assert plain(rows)[0]["means"]["drop"] == [1.25, 1.0, 1.5]
