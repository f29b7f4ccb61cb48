import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from normxlogit.render import html, terminal
from normxlogit.render.blocks import Bar, Card, Column, Fold, Header, Paragraph, Piece, Sentence, Sentences, Table, cell
from normxlogit.render.builders.collection import cards
from normxlogit.render.builders.text import attribution_blocks
from normxlogit.render.charts import BarRow, Bars, Grid, Legend, Timeline
from normxlogit.render.figures import plots
from tests.factories import (
    MOVIE,
    all_labels,
    all_layers,
    labels_and_layers,
    make_attribution,
    make_generation,
    make_image,
    pair,
)

SHAPES = [make_attribution, all_labels, all_layers, labels_and_layers, pair]
VOID = {"meta", "br", "hr", "img", "link", "input"}


def fragment(a, **options):
    """Draw tokens unless a test asks for words."""
    return html.fragment(attribution_blocks(a, **({"words": False} | options)))


def page(results, title="Token attributions", *, words=False):
    """Draw tokens unless a test asks for words."""
    return html.page(cards(results, words=words), title)


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
    assert set(marks) == {"The", "movie", "medi", "ocre", "maybe", "even", "bad", "."}
    assert marks["bad"]["class"] == "nxl-mark nxl-for"
    assert marks["."]["class"] == "nxl-mark nxl-against"
    assert [strength(marks[name]) for name in ("bad", "medi", ".")] == pytest.approx([1.0, 0.5, 0.2])
    assert marks["bad"]["title"] == "bad  +3.00"


def test_labels_have_sentences_and_one_heat_map():
    drawn = Page(fragment(all_labels()))
    assert [text for _, text in drawn.find("p", "nxl-caption")] == ["negative", "positive"]
    assert drawn.sentences() == [f"[CLS] {MOVIE} [SEP]"] * 2
    assert "Every label" in [text for _, text in drawn.find("summary")]
    headings = [(attrs.get("scope"), text) for attrs, text in drawn.find("th")]
    assert headings[1] == ("col", "The")
    assert [text for scope, text in headings if scope == "row"] == ["negative", "positive"]
    cells = [(attrs, text) for attrs, text in drawn.find("td") if attrs.get("title")]
    assert len(cells) == 2 * 12
    by_title = {attrs["title"]: (attrs["class"], strength(attrs), text) for attrs, text in cells if "style" in attrs}
    assert by_title["bad  +3.00\n(negative)"] == ("nxl-mark nxl-for", 1.0, "+3.00")
    assert by_title["bad  -1.50\n(positive)"] == ("nxl-mark nxl-against", 0.5, "-1.50")


def test_layers_have_one_sentence_and_their_own_scales():
    drawn = Page(fragment(all_layers(3)))
    assert [text for _, text in drawn.find("p", "nxl-caption")] == ["layer 3"]
    assert [text for attrs, text in drawn.find("th") if attrs.get("scope") == "row"] == [
        f"layer {n}" for n in (1, 2, 3)
    ]
    strongest = [text for attrs, text in drawn.find("td", "nxl-for") if strength(attrs) == 1.0]
    assert strongest == ["+3.00", "+30.0", "+300"]
    assert "each layer by its own largest score" in drawn.find("div", "nxl-notes")[0][1]


def test_fragment_styles_nothing_outside_itself():
    style = Page(fragment(make_attribution())).find("style")[0][1]
    rules = [
        part.split("{")[-2] if "@media" in part else part.split("{")[0] for part in style.split("}") if "{" in part
    ]
    selectors = [one.strip() for rule in rules for one in rule.split(",")]
    assert len(selectors) > 20
    assert all(one.startswith((".nxl", "div.nxl")) for one in selectors)


def without_styles(content: str) -> str:
    """Drop what notebooks drop from output that they do not trust."""
    content = re.sub(r"<style>.*?</style>", "", content, flags=re.S)
    return re.sub(r"--s:[\d.]+;?", "", content)


@pytest.mark.parametrize("make", SHAPES)
def test_colours_survive_without_a_style_sheet(make):
    drawn = Page(without_styles(fragment(make())))
    marks = [attrs for name in ("span", "td") for attrs, _ in drawn.find(name) if attrs.get("title")]
    red = [m["style"] for m in marks if "nxl-for" in (m.get("class") or "")]
    blue = [m["style"] for m in marks if "nxl-against" in (m.get("class") or "")]
    assert red
    assert blue
    assert all(re.fullmatch(r"background-color:rgba\(220,38,38,0\.\d{3}\)", style) for style in red)
    assert all(re.fullmatch(r"background-color:rgba\(37,99,235,0\.\d{3}\)", style) for style in blue)
    assert len(set(red)) > 2
    bars = drawn.find("span", "nxl-bar")
    assert all("display:inline-block" in a["style"] and "width:" in a["style"] for a, _ in bars)


@pytest.mark.parametrize("make", [*SHAPES, make_generation])
def test_a_notebook_s_own_styles_find_nothing_to_change(make):
    """Hosts style definition lists, marks and headings, and give tables a fixed layout."""
    content = make()._repr_html_()
    tags = {name for name, _, _ in Page(content).elements}
    assert not tags & {"dl", "dt", "dd", "mark", "h1", "h2", "h3", "h4"}
    assert ".nxl.nxl table { border-collapse: collapse; font-size: .87em; table-layout: auto; width: auto" in content


def test_a_text_has_its_own_direction():
    hebrew = make_attribution(("הסרט", "רע"), (1.0, -1.0), text="הסרט רע")
    for words in (False, True):
        drawn = Page(fragment(hebrew, words=words))
        assert [attrs["dir"] for attrs, _ in drawn.find("p", "nxl-text")] == ["rtl"]
    assert all(attrs["dir"] == "ltr" for attrs, _ in Page(fragment(hebrew)).find("span", "nxl-special"))
    assert Page(fragment(make_attribution())).find("p", "nxl-text")[0][0]["dir"] == "ltr"
    assert Page(fragment(replace(hebrew, text=None))).find("p", "nxl-text")[0][0]["dir"] == "rtl"


def test_a_page_of_layers_opens_where_there_is_something_to_see():
    """Here all scores of the last layer are on [CLS]."""
    scores = np.stack([make_attribution().scores] * 3)[:, 1:-1]
    scores[2] = 0
    a = make_attribution(scores=scores, layers=(1, 2, 3))
    drawn = Page(a.to_html())
    assert [text for _, text in drawn.find("h3", "nxl-caption")] == ["layer 2"]
    assert drawn.find("input")[0][0]["value"] == "1"
    assert "layer 3: no word has a score here" in drawn.find("div", "nxl-notes")[0][1]
    assert "layer 3: no word has a score here" in str(a)
    assert "no word has a score here" not in str(all_layers())


def test_any_list_of_blocks_is_drawn_everywhere():
    """A new result lists its blocks and needs no renderer or template of its own."""
    evil = "<b>\x1b[31m"
    blocks = [
        Header(evil, [("name", evil)], [evil]),
        Sentences([Sentence(evil, [("auto", [Piece(evil, -0.7, number="1")])])]),
        Bars([BarRow(evil, 2.0), BarRow("b", -1.0)], 2.0),
        Table([Column("a"), Column("b", numbers=True)], [[cell(evil), cell("1", 1.0, bar=Bar(0.0, 0.5))]], evil),
        Grid([evil], ["x", "y"], np.ones((1, 2), np.float32)),
        Timeline([(0.0, 1.0), (1.0, 2.0)], np.array([1.0, -1.0]), np.array([1.0, -1.0])),
        Legend(evil, "against"),
        Fold(evil, [Paragraph(evil)], essential=True),
    ]
    text = terminal.text_of_blocks(blocks, color=False)
    assert text.count("<b>␛[31m") == 11
    assert "\x1b" not in text
    for content in (html.fragment(blocks), html.page([Card(blocks, "a"), Card(blocks, "b")], evil)):
        assert Page(content).find("b") == []
        assert "\x1b" not in content
    assert [plots._draw(block) is not None for block in blocks[2:6:2]] == [True, True]


def luminance(color) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in color)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def over(color, ground, opacity: float):
    return tuple(opacity * c + (1 - opacity) * g for c, g in zip(color, ground, strict=True))


TEMPLATES = Path(html.__file__).with_name("templates")


def themes() -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Paper and ink: the page's own, light and dark, and those of notebooks."""
    found = [
        tuple(tuple(bytes.fromhex(re.search(rf"--{name}: #(\w{{6}})", part)[1])) for name in ("card", "ink"))
        for part in re.findall(r":root \{.*?\}", (TEMPLATES / "page.css").read_text())
    ]
    assert len(found) == 2
    return [*found, ((255, 255, 255), (0, 0, 0)), ((17, 17, 17), (238, 238, 238))]


@pytest.mark.parametrize(("paper", "ink"), themes())
def test_letters_stand_out(paper, ink):
    for color in html.COLORS.values():
        ground = over(tuple(map(int, color.split(","))), paper, html.DENSEST)
        assert contrast(ink, ground) >= 4.5
    for sheet in ("style.css", "page.css"):
        for opacity in re.findall(r" opacity: ([\d.]+)", (TEMPLATES / sheet).read_text()):
            assert contrast(over(ink, paper, float(opacity)), paper) >= 4.5


def test_letters_stand_out_in_terminals():
    for weak, strong in terminal.SHADES.values():
        assert contrast((255, 255, 255), weak) >= 4.5
        assert contrast((255, 255, 255), strong) >= 4.5
    for ink in terminal.INK.values():
        assert contrast(ink, (0, 0, 0)) >= 4.5
        assert contrast(ink, (255, 255, 255)) >= 4.5


def test_the_patches_of_a_picture_lie_as_in_the_picture():
    content = make_image().to_html()
    assert "Patches as they lie in the picture" in [text for _, text in Page(content).find("p", "nxl-title")]
    rows = re.findall(r'<tr><th scope="row">(\d)</th>(.*?)</tr>', content, re.S)
    assert [(name, re.findall(r">([^<>]+)</td>", cells)) for name, cells in rows] == [
        ("1", ["+1.00", "-2.00"]),
        ("2", ["+3.00", "0.00"]),
    ]
