from dataclasses import replace

import pytest

from normxlogit import Attributions, DataError
from normxlogit.results.targets import Target
from tests.factories import all_labels, all_layers, make_attribution, pair
from tests.render.test_html import Page


def columns(drawn):
    return [text for attrs, text in drawn.find("th") if attrs.get("scope") == "col"]


def test_the_same_method_twice_is_told_apart():
    both = Attributions([make_attribution(method="lime", settings={"samples": n}) for n in (10, 20)])
    names = ["lime (samples=10)", "lime (samples=20)"]
    assert columns(Page(both.to_html()))[2:4] == names
    assert all(f"\n{name}  The movie" in str(both) for name in names)
    assert "200 forward" not in str(both)  # the price at the default settings
    assert [label.get_text() for label in both.plot().axes[0].get_yticklabels()] == names


def test_the_terminal_has_a_line_for_each_method_and_a_row_for_each_word():
    one = make_attribution(("good", "bad", "dull"), (3, -2, 1), text="good bad dull")
    both = Attributions([one, replace(one, method="lime", scores=one.scores * [1, 0.2, -2, 0, 1])])
    text = str(both)
    assert "\nnormxlogit  good(+++) bad(---) dull(++)\nlime        good(+) bad(+++) dull\n" in text
    rows = {line.split()[0]: line.split()[1:] for line in text.splitlines() if line}
    assert rows["good"] == ["+3.00", "+++", "+0.60", "+"]
    assert rows["dull"] == ["+1.00", "++", "0.00"]
    assert "How far the rankings agree" in text
    assert rows["lime"][0] == f"{both.agreement.correlations[1, 0]:.2f}"


def test_words_that_the_tokenizer_does_not_know_have_a_column_where_there_are_some():
    known = make_attribution(("good", "bad"), (3, -2), text="good bad")
    unknown = make_attribution(("good", "bad"), (3, -2), text="good bad", tokens=("[CLS]", "[UNK]", "bad", "[SEP]"))
    drawn = [Page(Attributions([a, replace(a, method="lime")]).to_html()) for a in (known, unknown)]
    assert [len(columns(page)) for page in drawn] == [6, 7]
    assert [any(text == "[UNK]" for _, text in page.find("td")) for page in drawn] == [False, True]


OTHERS = {
    "layers": all_layers(),
    "labels": all_labels(),
    "text": pair(),
    "target": make_attribution(target=Target("label", "positive", 1)),
    "contrast": make_attribution(target=Target("label", "negative", 0, "positive", 1)),
    "model": make_attribution(model="another"),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_results_that_do_not_go_together_are_drawn_one_by_one_and_do_not_agree(other):
    apart = Attributions([make_attribution(), replace(other, method="lime")])
    assert not apart.comparable
    assert "rankings agree" not in str(apart)
    assert 'id="result-2"' in apart.to_html()
    with pytest.raises(DataError, match=r"one score for each token|one text, one target and one model"):
        apart.agreement  # noqa: B018
