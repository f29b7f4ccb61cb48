"""Tables and figures of faithfulness: each figure in its place, and what is marked as the best."""

import numpy as np
from scipy.stats import wilcoxon

from normxlogit.evaluation import report
from normxlogit.evaluation.faithfulness import Faithfulness
from normxlogit.evaluation.runs import Refused

RNG = np.random.default_rng(0)


def result(name, aopc, quality=0.5, kind="accuracy"):
    curves = {
        name: tuple(aopc + i + place / 10 for place in range(9)) for i, name in enumerate(("aopc", "sufficiency"))
    }
    curves["quality"] = (quality,) * 9
    per_text = tuple(aopc + RNG.normal(size=12) / 10)
    return Faithfulness(name, aopc, (aopc - 0.1, aopc + 0.1), 0.12, (0.0, 0.2), quality, kind, curves, 12, per_text)


def test_the_table_begins_with_the_best_and_compares_all_others_with_it():
    low, high, middle = [result("low", 0.2), result("high", 0.4, 0.25), result("middle", 0.3)]
    p = [wilcoxon(np.subtract(one.per_text, high.per_text)).pvalue for one in (middle, low)]
    text = report.faithfulness_table([low, Refused("absent", "why"), high, middle, Refused("gone", "why")])
    assert text == (
        "| method | AOPC ↑ | 95% interval | sufficiency ↓ | accuracy ↓ | p (against the best) |\n"
        "|---|---:|---:|---:|---:|---:|\n"
        "| high | **0.400** | 0.300 to 0.500 | 0.120 | 0.250 |  |\n"
        f"| middle | <u>0.300</u> | 0.200 to 0.400 | 0.120 | 0.500 | {p[0]:.2g} |\n"
        f"| low | 0.200 | 0.100 to 0.300 | 0.120 | 0.500 | {p[1]:.2g} |\n"
        "| absent | N/A |  |  |  |  |\n"
        "| gone | N/A |  |  |  |  |\n"
    )
