import re
from html.parser import HTMLParser

import pytest

from normxlogit import Attributions
from normxlogit.render import html
from normxlogit.render.blocks import Piece, Sentence, Sentences
from normxlogit.render.cards import cards
from normxlogit.render.text import attribution_blocks
from tests.factories import MOVIE, all_labels, all_layers, labels_and_layers, make_attribution, pair

SHAPES = [make_attribution, all_labels, all_layers, labels_and_layers, pair]
VOID = {"meta", "br", "hr", "img", "link", "input"}


def fragment(a, **options):
    return html.fragment(attribution_blocks(a, **({"words": False} | options)))


def page(results, title="What the answer rests on", *, words=False):
    return html.page(cards(Attributions(results), words=words), title)


class Page(HTMLParser):
    """Checks that tags close in order and remembers elements with their attributes and text."""

    def __init__(self, content: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None], list[str]]] = []
        self.open: list[int] = []
        self.feed(content)
        self.close()
        assert not self.open, "unclosed elements"

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs), []))
        if tag not in VOID:
            self.open.append(len(self.elements) - 1)

    def handle_endtag(self, tag):
        assert self.elements[self.open.pop()][0] == tag

    def handle_data(self, data):
        for index in self.open:
            self.elements[index][2].append(data)

    def find(self, tag: str, cls: str | None = None) -> list[tuple[dict[str, str | None], str]]:
        return [
            (attrs, "".join(text))
            for name, attrs, text in self.elements
            if name == tag and (cls is None or cls in (attrs.get("class") or "").split())
        ]

    def sentences(self) -> list[str]:
        return [text for _, text in self.find("p", "nxl-text")]


def strength(attrs: dict[str, str | None]) -> float:
    return float((attrs["style"] or "").removeprefix("--s:").split(";")[0])


@pytest.mark.parametrize("make", SHAPES)
@pytest.mark.parametrize("draw", [fragment, lambda a: page([a])], ids=["fragment", "page"])
def test_well_formed_and_self_contained(make, draw):
    content = draw(make())
    drawn = Page(content)
    assert all("src" not in attrs for attrs, _ in drawn.find("script"))
    assert not drawn.find("script") or draw is not fragment
    assert not drawn.find("link")
    assert not drawn.find("img")
    for outside in ("http:", "https:", "url(", "@import"):
        assert outside not in content
    assert len(drawn.find("style")) == 1


def test_sentence_is_the_original_text():
    assert Page(fragment(make_attribution())).sentences() == [f"[CLS] {MOVIE} [SEP]"]
    assert Page(fragment(pair())).sentences() == ["[CLS] A man  sleeps. [SEP]", "A man runs. [SEP]"]
    lines = make_attribution(("One", "two"), (1.0, -1.0), text="  One\n\n  two", special=False)
    assert Page(fragment(lines)).sentences() == ["  One\n\n  two"]


def test_tokens_carry_sign_strength_and_score():
    marks = {
        text: attrs
        for attrs, text in Page(fragment(make_attribution())).find("span", "nxl-mark")
        if attrs.get("title") and "style" in attrs
    }
    assert set(marks) == {"medi", "ocre", "maybe", "even", "bad", "."}
    assert marks["bad"]["class"] == "nxl-mark nxl-for"
    assert marks["."]["class"] == "nxl-mark nxl-against"
    assert [strength(marks[name]) for name in ("bad", "medi", ".")] == pytest.approx([1.0, 0.5, 0.2])
    assert marks["bad"]["title"] == "bad  +3.00"


def test_a_word_has_a_colour_on_a_page_where_it_has_a_mark_on_a_terminal():
    a = make_attribution(tuple("abcdef"), (10.0, 1.1, 0.9, -0.9, -1.1, 0.3), text="a b c d e f", special=False)
    marks = Page(fragment(a)).find("span", "nxl-mark")
    coloured = [text for attrs, text in marks if "title" in attrs and "style" in attrs]
    assert "a(+++) b(+) c d e(-) f" in str(a)
    assert coloured == ["a", "b", "e"]
    assert "closer to 0 than 1.0" in str(a)


def test_layers_have_one_sentence_and_their_own_scales():
    drawn = Page(fragment(all_layers(3)))
    assert [text for _, text in drawn.find("p", "nxl-caption")] == ["layer 3"]
    assert [text for attrs, text in drawn.find("th") if attrs.get("scope") == "row"] == [
        f"layer {n}" for n in (1, 2, 3)
    ]
    strongest = [text for attrs, text in drawn.find("td", "nxl-for") if strength(attrs) == 1.0]
    assert strongest == ["+3.00", "+30.0", "+300"]
    assert "each layer by its own largest score" in drawn.find("div", "nxl-notes")[0][1]


def test_every_score_is_in_a_table():
    a = make_attribution()
    drawn = a.to_html()
    _, _, table = drawn.partition(f"All {len(a.words())} scores")
    values = {round(float(value), 4) for value in re.findall(r'data-value="(-?[\d.e-]+)"', table)}
    assert {round(word.score, 4) for word in a.words()} <= values


def test_the_class_of_a_piece_is_that_of_its_kind_but_of_a_sink_with_a_colour():
    pieces = [Piece(f"{kind}{strength:g}", strength, kind) for kind in html.CLASSES for strength in (0.0, 0.5, -0.5)]
    drawn = html.fragment([Sentences([Sentence("", [pieces])])])
    shown = {text: attrs["class"].split() for attrs, text in Page(drawn).find("span") if text}
    for kind, cls in html.CLASSES.items():
        assert shown[f"{kind}0"] == cls.split()
        for strength, sign in ((0.5, "nxl-for"), (-0.5, "nxl-against")):
            assert shown[f"{kind}{strength:g}"] == [*("nxl-mark" if kind == "sink" else cls).split(), sign]
