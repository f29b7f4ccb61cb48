"""Several methods on one text in the terminal."""

from dataclasses import replace

import numpy as np
import pytest
from rich.cells import cell_len

from normxlogit import TargetInfo
from normxlogit.errors import DataError
from normxlogit.results.comparison import Comparison
from tests.factories import all_labels, make_attribution, pair

WIDE = ("电影", "好", "😀", "film")


def two(pieces=("good", "bad", "dull"), text="good bad dull", first=(3, -2, 1), second=(0.5, 4, 0)):
    one = make_attribution(pieces, first, text=text)
    other = make_attribution(pieces, second, text=text, method="lime", settings={"points": (0.5, 1.0)})
    return Comparison([one, other])


def rows(text):
    """The cells of the table by the word in front."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.split() == ["normxlogit", "lime"]) + 1
    found = lines[start : lines.index("", start)]
    return {line.split()[0]: line.split()[1:] for line in found}


def test_each_method_has_its_line_and_every_word_one_row():
    text = two().to_text(color=False, costs=["1 forward", "200 forward"])
    assert "\nmethods     normxlogit (norm_of=embedding_output): 1 forward\n" in text
    assert "\n            lime (points=0.5+1.0): 200 forward\n" in text
    assert "\nnormxlogit  good(+++) bad(---) dull(++)\nlime        good(+) bad(+++) dull\n" in text
    assert rows(text) == {
        "good": ["+3.00", "++++++++", "+0.50", "+"],
        "bad": ["-2.00", "-----", "+4.00", "++++++++"],
        "dull": ["+1.00", "+++", "0.00"],
    }
    assert text.endswith("the rankings agree (Spearman): normxlogit and lime -0.50")
    assert str(two()) == two().to_text(color=False)


def test_words_that_are_strong_by_any_method_are_shown():
    pieces = tuple(f"w{i}" for i in range(12))
    first, second = np.zeros((2, 12))
    first[3], second[9] = 1, -1
    shown = rows(two(pieces, " ".join(pieces), first, second).to_text(color=False))
    assert list(shown)[:2] == ["w3", "w9"]
    assert "and 4 more" in two(pieces, " ".join(pieces), first, second).to_text(color=False)


def test_columns_line_up_where_letters_are_wide():
    a = two(WIDE, "电影 好 😀 film", (1, 2, 3, 4), (4, 3, 2, 1)).to_text(color=False, words=False)
    lines = a.splitlines()
    start = next(i for i, line in enumerate(lines) if line.split() == ["normxlogit", "lime"])
    ends = {cell_len(line[: line.index("+") + 5]) for line in lines[start + 1 : start + 5]}
    assert len(ends) == 1, "the first column of numbers ends at one place"


def test_it_fits_into_80_columns_however_many_methods():
    both = two()
    many = Comparison([replace(both[0], method=f"method-{i}") for i in range(4)])
    assert max(map(cell_len, many.to_text(color=False).splitlines()[:-1])) <= 110
    assert "++++" not in many.to_text(color=False), "no bars"


def test_the_same_method_with_other_settings_is_told_apart():
    both = two()
    text = Comparison([both[1], replace(both[1], settings={"points": (1.0,)})]).to_text(color=False)
    assert "lime (points=0.5+1.0)  good" in text
    assert "lime (points=1.0)      good" in text


def test_control_characters_do_not_reach_the_terminal():
    text = two(("\x1b[31m", "b"), "\x1b[31m b", (1, 2), (2, 1)).to_text(color=False)
    assert "\x1b" not in text
    assert "\x1b[" in two().to_text(color=True)


def test_other_texts_or_several_scores_are_refused():
    with pytest.raises(DataError, match="one score for each token"):
        Comparison([all_labels(), all_labels()]).to_text()
    with pytest.raises(DataError, match="one text, one target"):
        Comparison([make_attribution(), pair()]).to_text()
    assert str(Comparison([])) == "no results"
    with pytest.raises(DataError, match="no results to compare"):
        Comparison([]).to_text()


@pytest.mark.parametrize(
    "other",
    [
        {"target": TargetInfo("label", ("positive",), (1,))},
        {"target": TargetInfo("label", ("negative",), (0,), "positive", 1)},
        {"model": "another"},
    ],
    ids=["target", "contrast", "model"],
)
def test_other_targets_and_models_are_refused(other):
    both = Comparison([make_attribution(target=TargetInfo("label", ("negative",), (0,))), make_attribution(**other)])
    for draw in (both.to_text, both.to_html, both.plot, lambda: both.agreement):
        with pytest.raises(DataError, match="one text, one target and one model"):
            draw()
