"""Several methods on one text, and many results in a table."""

import re
from dataclasses import replace

import numpy as np
import pytest

from normxlogit import Attributions, DataError
from normxlogit.render.builders.curves import Curve, Curves
from normxlogit.results.comparison import Comparison
from normxlogit.results.targets import Target
from tests.factories import MOVIE, all_labels, all_layers, make_attribution, pair
from tests.render.test_html import Page


def compared():
    other = make_attribution(scores=np.arange(10.0), method="logat", signed=False, settings={})
    return Comparison([make_attribution(), other])


def columns(drawn):
    return [text for attrs, text in drawn.find("th") if attrs.get("scope") == "col"]


def test_methods_are_columns_and_words_are_rows():
    comparison = compared()
    drawn = Page(comparison.to_html(costs=["1 forward", "T forward"]))
    assert drawn.sentences() == [MOVIE] * 2
    assert [text for _, text in drawn.find("h3", "nxl-caption")] == ["normxlogit", "logat"]
    assert "normxlogit: 1 forward" in [text for _, text in drawn.find("span", "nxl-value")]
    assert columns(drawn) == ["#", "word", "normxlogit", "logat", "normxlogit", "logat"]
    names = [text for attrs, text in drawn.find("th") if attrs.get("scope") == "row"]
    assert names[:4] == ["The", "movie", "is", "mediocre"]
    cells = [(attrs["data-value"], text) for attrs, text in drawn.find("td", "nxl-number")]
    assert cells[6] == ("2.200000047683716", "+2.20")  # "mediocre", two tokens summed
    assert cells[7] == ("7.0", "7.00")
    agreement = [text for _, text in cells[-4:]]
    assert agreement == ["1.00", f"{comparison.agreement[0, 1]:.2f}", f"{comparison.agreement[1, 0]:.2f}", "1.00"]


def test_the_same_method_twice_is_told_apart():
    both = Comparison([make_attribution(method="lime", settings={"samples": n}) for n in (10, 20)])
    names = ["lime (samples=10)", "lime (samples=20)"]
    assert columns(Page(both.to_html()))[2:4] == names
    text = both.to_text(color=False)
    assert all(f"\n{name}  The movie" in text for name in names)
    assert [label.get_text() for label in both.plot().axes[0].get_yticklabels()] == names
    assert all(name in Attributions([*both]).to_html() for name in names)


def test_the_terminal_has_a_line_for_each_method_and_a_row_for_each_word():
    one = make_attribution(("good", "bad", "dull"), (3, -2, 1), text="good bad dull")
    both = Comparison([one, replace(one, method="lime", scores=one.scores * [1, 0.2, -2, 0, 1])])
    text = both.to_text(color=False, costs=["1 forward", "200 forward"])
    assert "\nmethod      normxlogit: 1 forward\n" in text
    assert "\nnormxlogit  good(+++) bad(---) dull(++)\nlime        good(+) bad(+++) dull\n" in text
    rows = {line.split()[0]: line.split()[1:] for line in text.splitlines() if line}
    assert rows["good"] == ["+3.00", "+++", "+0.60", "+"]
    assert rows["dull"] == ["+1.00", "++", "0.00"]
    assert "How far the rankings agree" in text
    assert rows["lime"][0] == f"{both.agreement[1, 0]:.2f}"
    assert str(both) == both.to_text(color=False)


def test_in_a_notebook_there_is_no_script_and_colour_stands_at_each_piece():
    drawn = Page(compared()._repr_html_())
    assert not drawn.find("script")
    assert not {tag for tag, _, _ in drawn.elements} & {"dl", "mark", "h1", "h2", "h3"}
    assert any("background-color:rgba(220" in (attrs.get("style") or "") for attrs, _ in drawn.find("td"))


@pytest.mark.parametrize("draw", [Comparison.to_text, Comparison.to_html])
@pytest.mark.parametrize("other", [all_layers, all_labels, pair])
def test_results_that_do_not_go_together_are_refused(other, draw):
    with pytest.raises(DataError, match=r"one score for each token|one text, one target"):
        draw(Comparison([make_attribution(), other()]))
    with pytest.raises(DataError, match="no results"):
        draw(Comparison([]))
    assert str(Comparison([])) == "no results"


@pytest.mark.parametrize(
    "other",
    [
        {"target": Target("label", "positive", 1)},
        {"target": Target("label", "negative", 0, "positive", 1)},
        {"model": "another"},
    ],
    ids=["target", "contrast", "model"],
)
def test_other_targets_and_models_are_refused(other):
    both = Comparison([make_attribution(targets=(Target("label", "negative", 0),)), make_attribution(**other)])
    for draw in (both.to_text, both.to_html, both.plot, lambda: both.agreement):
        with pytest.raises(DataError, match="one text, one target and one model"):
            draw()


def test_many_results_are_a_table_with_a_card_each():
    results = Attributions([*(make_attribution() for _ in range(2)), pair(), *(make_attribution() for _ in range(2))])
    content = results.to_html(title="All")
    drawn = Page(content)
    assert columns(drawn)[:5] == ["#", "text", "label", "probability", "rests on"]
    assert len(drawn.find("article")) == 5
    links = [(attrs["href"], text) for attrs, text in drawn.find("a")]
    assert links[0] == ("#result-1", MOVIE)
    assert links[2] == ("#result-3", "A man sleeps. / A man runs.")
    row = re.search(r'<tr><td class="nxl-index">1</td>.*?</tr>', content, re.S)[0]
    assert re.findall(r"nxl-mark[^>]*>([^<]+)<", row) == ["bad", "mediocre", "&#34;.&#34;", "maybe"]
    assert "98.2%" in row
    assert "open" not in drawn.find("details", "nxl-card")[0][0]
    few = Page(results[:2].to_html())
    assert "open" in few.find("details", "nxl-card")[0][0]
    assert not Page(results[:1].to_html()).find("details", "nxl-card")


def test_several_texts_by_several_methods_are_a_comparison_each():
    second = {"pieces": ("good", "bad"), "scores": (3, -2), "text": "good bad"}
    methods = ("normxlogit", "lime")
    results = [make_attribution(**options, method=method) for options in ({}, second) for method in methods]
    drawn = Page(Attributions(results).to_html())
    assert columns(drawn)[1:4] == ["text", "label", "probability"]
    assert [name.partition(" (")[0] for name in columns(drawn)[4:6]] == ["rests on, normxlogit", "rests on, lime"]
    assert len(drawn.find("article")) == 2
    assert [text for _, text in drawn.find("a")] == [MOVIE, "good bad"]
    assert len(drawn.find("p", "nxl-text")) == 4


def test_curves_share_a_scale():
    high = Curve("a", "probability of x", (0, 0.5, 1), (1.0, 0.25, 0.0), (1.0, 1.0, 0.0), 0.375)
    (one,) = Curves([high]).drawings
    assert one.high == "0.0,0.0 150.0,112.5 300.0,150.0"
    assert "25.0% without the highest scored ones and 100.0% without the lowest" in one.summary
    assert [name for _, name in one.ticks] == ["0%", "50%", "100%"]
    value = Curve("b", "score", (0, 1), (4.0, -4.0), (4.0, -4.0), 0.0, chance=False)
    (two,) = Curves([value]).drawings
    assert (two.high, [name for _, name in two.ticks]) == ("0.0,0.0 300.0,150.0", ["-4", "0", "4"])
