from html.parser import HTMLParser

import numpy as np
import pytest

from normxlogit.errors import DataError
from normxlogit.render.html import fragment, page
from normxlogit.results.attribution import Prediction
from tests.factories import MOVIE, all_labels, all_layers, labels_and_layers, make_attribution, pair

SHAPES = [make_attribution, all_labels, all_layers, labels_and_layers, pair]
VOID = {"meta", "br", "hr", "img", "link", "input"}


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
    return float((attrs["style"] or "").removeprefix("--s:"))


@pytest.mark.parametrize("make", SHAPES)
@pytest.mark.parametrize("draw", [fragment, lambda a: page([a])], ids=["fragment", "page"])
def test_well_formed_and_self_contained(make, draw):
    content = draw(make())
    drawn = Page(content)
    assert not drawn.find("script")
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
    marks = {text: attrs for attrs, text in Page(fragment(make_attribution())).find("mark") if attrs.get("title")}
    assert set(marks) == {"The", "movie", "medi", "ocre", "maybe", "even", "bad", "."}
    assert marks["bad"]["class"] == "nxl-for"
    assert marks["."]["class"] == "nxl-against"
    assert [strength(marks[name]) for name in ("bad", "medi", ".")] == pytest.approx([1.0, 0.5, 0.2])
    assert marks["bad"]["title"] == "bad  +3.00"
    assert marks["bad"]["aria-label"] == "bad  +3.00"


def test_signs_show_without_color():
    content = fragment(make_attribution())
    assert " solid rgb(var(--red)" in content
    assert " dashed rgb(var(--blue)" in content
    assert [text for _, text in Page(content).find("td", "nxl-number")][:4] == ["+3.00", "+1.50", "+0.70", "-0.60"]


def test_special_tokens_are_dimmed_and_not_colored():
    special = Page(fragment(make_attribution())).find("span", "nxl-special")
    assert [text for _, text in special] == ["[CLS]", "[SEP]"]
    assert special[0][0]["title"] == "[CLS]  +9.00"


def test_hostile_text_is_escaped_everywhere():
    evil = "<script>alert(1)</script>"
    quote = '"onmouseover="x'
    a = make_attribution(
        (evil, quote),
        (1.0, -1.0),
        text=f"{evil} {quote} </style>",
        model=evil,
        method=evil,
        notes=(evil,),
        settings={"s": evil},
        prediction=Prediction(evil, 0, 1.0, 0.5),
        target=type(make_attribution().target)("label", (evil,), (0,), contrast=quote, contrast_id=1),
        token_predictions=(Prediction(evil, 0, 1.0, 0.5),) * 4,
    )
    for content in (fragment(a), page([a], title=evil)):
        drawn = Page(content)
        assert "<script" not in content.lower()
        assert not any("onmouseover" in attrs for _, attrs, _ in drawn.elements)
        assert drawn.sentences() == [f"[CLS] {evil} {quote} [SEP] </style>"]
        assert any(text == evil for _, text in drawn.find("dd"))
    assert Page(page([a], title=evil)).find("title")[0][1] == evil


def test_control_characters_do_not_turn_the_page_around():
    a = make_attribution(("a\u202eb", "\x00", "\ud800"), (1.0, 2.0, 3.0), text="a\u202eb \x00 \ud800")
    content = page([a])
    assert not set("\u202e\x00\ud800") & set(content)
    content.encode("utf-8")


def test_labels_have_sentences_and_one_heat_map():
    drawn = Page(fragment(all_labels()))
    assert [text for _, text in drawn.find("h3")] == ["negative", "positive"]
    assert drawn.sentences() == [f"[CLS] {MOVIE} [SEP]"] * 2
    assert [text for _, text in drawn.find("caption")] == ["Every label"]
    headings = [(attrs.get("scope"), text) for attrs, text in drawn.find("th")]
    assert headings[1] == ("col", "The")
    assert [text for scope, text in headings if scope == "row"] == ["negative", "positive"]
    cells = [(attrs, text) for attrs, text in drawn.find("td") if attrs.get("title")]
    assert len(cells) == 2 * 12
    by_title = {attrs["title"]: (attrs["class"], strength(attrs), text) for attrs, text in cells if "class" in attrs}
    assert by_title["bad  +3.00  (negative)"] == ("nxl-for", 1.0, "+3.00")
    assert by_title["bad  -1.50  (positive)"] == ("nxl-against", 0.5, "-1.50")


def test_layers_have_one_sentence_and_their_own_scales():
    drawn = Page(fragment(all_layers(3)))
    assert [text for _, text in drawn.find("h3")] == ["layer 3"]
    assert [text for attrs, text in drawn.find("th") if attrs.get("scope") == "row"] == ["1", "2", "3"]
    strongest = [text for attrs, text in drawn.find("td", "nxl-for") if strength(attrs) == 1.0]
    assert strongest == ["+3.00", "+30.0", "+300"]
    assert "each layer by its own largest score" in drawn.find("p", "nxl-legend")[0][1]


def test_labels_and_layers_have_a_heat_map_for_each_label():
    drawn = Page(fragment(labels_and_layers()))
    assert [text for _, text in drawn.find("caption")] == ["negative, every layer", "positive, every layer"]
    assert [text for _, text in drawn.find("h3")] == ["negative, layer 3", "positive, layer 3"]
    assert len([1 for attrs, _ in drawn.find("td") if attrs.get("title")]) == 2 * 3 * 12


def test_what_the_head_says_at_each_token_is_shown():
    said = tuple(Prediction(f"p{i}", i, 1.0, 0.25) for i in range(12))
    drawn = Page(fragment(make_attribution(token_predictions=said)))
    marks = {text: attrs["title"] for attrs, text in drawn.find("mark") if attrs.get("title")}
    assert marks["bad"] == "bad  +3.00\nthe head at this token alone: p9, 25.0%"
    assert "the head at this token alone" not in fragment(make_attribution())


def test_every_score_can_be_read():
    table = Page(fragment(make_attribution())).find("table", "nxl-all")
    assert len(table) == 1
    assert "medi" in table[0][1]
    assert "+9.00" in table[0][1]


def test_notes_and_facts():
    drawn = Page(fragment(make_attribution(notes=("cut to 512", "second"))))
    assert [text for _, text in drawn.find("p", "nxl-note")] == ["cut to 512", "second"]
    assert drawn.find("strong")[0][1] == "negative, 98.2%"
    assert [text for _, text in drawn.find("dd")] == ["negative", "normxlogit (norm_of=embedding_output)", "tiny-sst2"]


def test_words():
    drawn = Page(fragment(make_attribution(), words=True))
    assert drawn.sentences() == [MOVIE]
    assert "mediocre" in [text for _, text in drawn.find("mark")]
    with pytest.raises(DataError):
        page([make_attribution(offsets=None)], words=True)


def test_page_holds_every_result_in_order():
    drawn = Page(page([make_attribution(method="logat"), make_attribution(method="random")], title="Two"))
    assert drawn.find("h1")[0][1] == "Two"
    assert [text for _, text in drawn.find("dd")][1::3] == [
        f"{m} (norm_of=embedding_output)" for m in ("logat", "random")
    ]
    assert len(drawn.find("article")) == 2
    assert drawn.find("html")[0][0]["lang"] == "en"


def test_page_follows_the_reader_s_scheme_and_width():
    content = page([make_attribution()])
    assert "prefers-color-scheme: dark" in content
    assert 'name="viewport"' in content
    assert Page(page([])).find("article") == []


def test_fragment_styles_nothing_outside_itself():
    style = Page(fragment(make_attribution())).find("style")[0][1]
    rules = [
        part.split("{")[-2] if "@media" in part else part.split("{")[0] for part in style.split("}") if "{" in part
    ]
    selectors = [one.strip() for rule in rules for one in rule.split(",")]
    assert len(selectors) > 20
    assert all(one.startswith((".nxl", "div.nxl")) for one in selectors)


def test_all_zero_and_undefined_scores():
    for value in (0.0, np.nan):
        drawn = Page(fragment(make_attribution(scores=np.full(10, value))))
        assert drawn.sentences() == [f"[CLS] {MOVIE} [SEP]"]
        assert not drawn.find("table", "nxl-bars")


def test_encoded_input_and_text_beyond_the_window():
    assert Page(fragment(make_attribution(text=None))).sentences() == [
        "[CLS] The movie is mediocre , maybe even bad . [SEP]"
    ]
    drawn = Page(fragment(make_attribution(("The",), (1.0,))))
    assert drawn.find("span", "nxl-rest")[0][1] == " movie is mediocre, maybe even bad."
