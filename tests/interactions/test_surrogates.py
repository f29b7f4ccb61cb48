"""Surrogates that are compared with pairs, and the command that compares them."""

import json
from itertools import combinations

import numpy as np
import pytest

pytest.importorskip("normxlogit.interactions", reason="the wing is not there")
pytest.importorskip("normxlogit.evaluation", reason="the wing that measures is not there")

from normxlogit.interactions.evaluation.measure import Explained, table
from normxlogit.interactions.evaluation.surrogates import archipelago, pairs, single_units
from tests.commands import run

UNITS = 8


class Quadratic:
    """Answers that are a function of at most two units."""

    def __init__(self, *, may_be_empty: bool = True) -> None:
        random = np.random.default_rng(0)
        self.single, self.joint = random.normal(size=UNITS), np.triu(random.normal(size=(UNITS, UNITS)), 1)
        self.contributions, self.may_be_empty = self.single, may_be_empty
        self.passes = 0

    def values(self, masks):
        assert self.may_be_empty or masks.any(1).all()
        self.passes += len(np.unique(masks, axis=0))
        return 3 + masks @ self.single + np.einsum("ni,ij,nj->n", masks, self.joint, masks.astype(float))


MASKS = np.random.default_rng(1).random((200, UNITS)) < 0.5


def test_four_answers_to_each_pair_explain_a_function_of_pairs_whole() -> None:
    answers = Quadratic()
    predict = archipelago(answers, 2 + 2 * UNITS + UNITS * (UNITS - 1))
    assert answers.passes <= 2 + 2 * UNITS + UNITS * (UNITS - 1)
    np.testing.assert_allclose(predict(MASKS), answers.values(MASKS), atol=1e-9)


@pytest.mark.parametrize("surrogate", [single_units, lambda asked, budget: pairs(asked, budget).predict])
@pytest.mark.parametrize("budget", [20, 40])
def test_a_budget_is_kept_and_nothing_is_asked_of_an_empty_prompt(surrogate, budget) -> None:
    answers = Quadratic(may_be_empty=False)
    predicted = surrogate(answers, budget)(MASKS)
    assert answers.passes <= budget
    assert np.corrcoef(predicted, Quadratic().values(MASKS))[0, 1] > 0.7


def test_the_command_goes_on_where_it_was_stopped(tmp_path, capsys) -> None:
    words = ["evaluate", "interactions", "--budgets", "20 40", "--output", tmp_path]
    code, first, errors = run(capsys, *words, "--limit", "1")
    assert code == 0, errors
    kept = sorted((tmp_path / "inputs").iterdir())
    times = [path.stat().st_mtime_ns for path in kept]
    code, second, errors = run(capsys, *words, "--limit", "2")
    assert code == 0, errors
    assert [path.stat().st_mtime_ns for path in kept] == times
    assert "of 1 inputs" in first
    assert "of 2 inputs" in second
    results = json.loads((tmp_path / "interactions.json").read_text())["results"]
    shares = [{(each["surrogate"], each["budget"]): each["r2"] for each in of_input} for of_input in results]
    for (surrogate, budget), (other, fewer) in combinations(sorted(shares[0]), 2):
        if surrogate == other == "pairs":
            assert shares[0][surrogate, max(budget, fewer)] > 0.5


def test_budgets_that_are_not_numbers_are_refused(capsys) -> None:
    code, _, errors = run(capsys, "evaluate", "interactions", "--budgets", "many")
    assert code == 2
    assert "--budgets" in errors


def test_differences_are_paired_by_input_where_a_surrogate_lacks_some() -> None:
    with_both = (Explained("pairs", 64, 0.9, 0.9), Explained("Archipelago", 64, 0.5))
    rows = table([(Explained("pairs", 64, 0.1, 0.1),), with_both]).splitlines()
    assert "| pairs | 64 | 0.50 (0.10 to 0.90) |  |" in rows
    assert "| Archipelago | 64 | 0.50 (0.50 to 0.50) | 0.40 (0.40 to 0.40) |" in rows
