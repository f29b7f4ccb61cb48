"""Several methods on one page, and many results in a table."""

import dataclasses
import re

import numpy as np
import pytest

from normxlogit import Attributions, DataError
from normxlogit.render import html
from normxlogit.render.curves import Curve, draw
from normxlogit.results.comparison import Comparison
from tests.factories import MOVIE, all_labels, all_layers, make_attribution, pair
from tests.render.test_html import Page


def compared():
    other = make_attribution(scores=np.arange(10.0), method="logat", signed=False, settings={})
    return Comparison([make_attribution(), other])


def test_methods_are_columns_and_words_are_rows():
    comparison = compared()
    drawn = Page(comparison.to_html(costs=["1 forward", "T forward"]))
    assert drawn.sentences() == [MOVIE] * 2
    captions = [text for _, text in drawn.find("h3", "nxl-caption")]
    assert captions == ["normxlogit (norm_of=embedding_output) 1 forward", "logat T forward"]
    heads = [text for attrs, text in drawn.find("th") if attrs.get("scope") == "col"]
    assert heads == ["#", "word", "normxlogit", "logat", "normxlogit", "logat"]
    names = [text for attrs, text in drawn.find("th") if attrs.get("scope") == "row"]
    assert names[:4] == ["The", "movie", "is", "mediocre"]
    cells = [(attrs["data-value"], text) for attrs, text in drawn.find("td", "nxl-number") if "data-value" in attrs]
    assert cells[6] == ("2.200000047683716", "+2.20")  # "mediocre", two tokens summed
    assert cells[7] == ("7.0", "7.00")
    agreement = [text for attrs, text in drawn.find("td", "nxl-number") if "data-value" not in attrs]
    assert agreement == ["1.00", f"{comparison.agreement[0, 1]:.2f}", f"{comparison.agreement[1, 0]:.2f}", "1.00"]


def test_the_same_method_twice_is_told_apart():
    both = [make_attribution(settings={"steps": steps}) for steps in (10, 20)]
    heads = [text for attrs, text in Page(Comparison(both).to_html()).find("th") if attrs.get("scope") == "col"]
    assert heads[2:4] == ["normxlogit (steps=10)", "normxlogit (steps=20)"]


def test_in_a_notebook_there_is_no_script_and_colour_stands_at_each_piece():
    comparison = compared()
    drawn = Page(comparison._repr_html_())
    assert not drawn.find("script")
    assert not {tag for tag, _, _ in drawn.elements} & {"dl", "mark", "h1", "h2", "h3"}
    assert any("background-color:rgba(220" in (attrs.get("style") or "") for attrs, _ in drawn.find("td"))


@pytest.mark.parametrize("other", [all_layers, all_labels, pair])
def test_results_that_do_not_go_together_are_refused(other):
    with pytest.raises(DataError, match=r"one score for each token|one text, one target"):
        Comparison([make_attribution(), other()]).to_html()
    with pytest.raises(DataError, match="no results"):
        Comparison([]).to_html()


def test_many_results_are_a_table_with_a_card_each():
    results = Attributions([make_attribution() for _ in range(5)])
    results[2] = dataclasses.replace(pair(), scores=pair().scores.copy())
    content = results.to_html(title="All")
    drawn = Page(content)
    assert len(drawn.find("table", "nxl-overview")) == 1
    assert len(drawn.find("article")) == 5
    links = [(attrs["href"], text) for attrs, text in drawn.find("a")]
    assert links[0] == ("#result-1", MOVIE)
    assert links[2] == ("#result-3", "A man sleeps. / A man runs.")
    row = re.search(r'<tr data-card="result-1".*?</tr>', content, re.S)[0]
    words = re.findall(r"nxl-mark[^>]*>([^<]+)<", row)
    assert words == ["bad", "mediocre", "&#34;.&#34;", "maybe"]
    assert "98.2%" in row
    assert "open" not in drawn.find("details", "nxl-card")[0][0]
    few = Page(results[:2].to_html())
    assert "open" in few.find("details", "nxl-card")[0][0]
    assert not Page(results[:1].to_html()).find("table", "nxl-overview")


def test_long_texts_are_cut_in_the_table():
    text = "word " * 100
    long = make_attribution(["word"] * 100, np.ones(100), text=text.strip())
    (first, _) = [text for _, text in Page(html.page([long, long])).find("a")]
    assert len(first) <= 160
    assert first.endswith("\u2026")


def test_curves_share_a_scale():
    high = Curve("a", "probability of x", (0, 0.5, 1), (1.0, 0.25, 0.0), (1.0, 1.0, 0.0), 0.375)
    (one,) = draw([high])
    assert one.high == "0.0,0.0 150.0,112.5 300.0,150.0"
    assert one.gap == "+0.38"
    assert "25.0% without the highest scored ones and 100.0% without the lowest" in one.summary
    assert [name for _, name in one.ticks] == ["0%", "50%", "100%"]
    value = Curve("b", "score", (0, 1), (4.0, -4.0), (4.0, -4.0), 0.0, chance=False)
    (two,) = draw([value])
    assert (two.high, [name for _, name in two.ticks]) == ("0.0,0.0 300.0,150.0", ["-4", "0", "4"])
    assert draw([]) == []
