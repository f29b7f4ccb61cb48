"""Every kind of page that the library writes, opened in a browser at the width of a desk and of a phone."""

import json

import pytest

from normxlogit import ALL, Explainer, attribute, summarize
from normxlogit.corpora.pages.page import summary_page
from normxlogit.render.cards import results_page
from tests import tiny
from tests.browser.conftest import violations, wider_than_its_window, write
from tests.factories import pair
from tests.media.factories import make_image, make_media
from tests.media.test_pictures import only_sound

TEXT = "The movie is mediocre, maybe even bad, but the two leads have a charm that one does not forget."
TEXTS = [TEXT, "An absolute delight!", "It is not a bad film, just a very long one.", "Dull.", "Great cast, no story."]
CONVERSATION = [
    {"role": "system", "content": "Be short. The cat is never awful."},
    {"role": "user", "content": "Is the cat here?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"function": {"name": "look", "arguments": {"at": "the cat"}}}],
    },
    {"role": "tool", "name": "look", "content": json.dumps({f"key {i}": "here " * 9 for i in range(12)})},
    {"role": "assistant", "content": "The cat is here. The keys are there."},
]


@pytest.fixture(scope="module")
def explainer():
    return Explainer.from_pretrained()


@pytest.fixture(scope="module")
def writer():
    return tiny.writer(length=400, name="a tiny llama")


def methods(explainer) -> str:
    return results_page(explainer.compare(TEXT, ["normxlogit", "frozen-gradient", "random"]))


def summary(explainer, folder) -> str:
    attribute(explainer, [{"text": text} for text in TEXTS * 3], folder / "out", keep_text=True)
    return summary_page(summarize(folder / "out", min_texts=1, verify=2, explainer=explainer))


PAGES = {
    "text": lambda e, w, f: e(TEXT).to_html(),
    "labels": lambda e, w, f: e(TEXT, target=ALL).to_html(),
    "layers": lambda e, w, f: e(TEXT, layers=ALL, method="normxlogit").to_html(),
    "labels-layers": lambda e, w, f: e(TEXT, target=ALL, layers=ALL).to_html(),
    "pair": lambda e, w, f: pair().to_html(),
    "image": lambda e, w, f: make_image().to_html(),
    "picture-and-sound": lambda e, w, f: make_media().to_html(),
    "sound": lambda e, w, f: only_sound().to_html(),
    "methods": lambda e, w, f: methods(e),
    "batch": lambda e, w, f: e(TEXTS).to_html(),
    "generation": lambda e, w, f: w.generate("once upon a time the cat", max_new_tokens=8).to_html(),
    "citation": lambda e, w, f: w.cite(
        "the cat is here ?", ["the cat sat on the mat .", "a film is good ."], max_new_tokens=8
    ).to_html(),
    "conversation": lambda e, w, f: w.cite(messages=CONVERSATION, verify=0).to_html(),
    "summary": lambda e, w, f: summary(e, f),
}


@pytest.fixture(scope="module")
def pages(explainer, writer, tmp_path_factory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("pages")
    return {name: write(folder, name, make(explainer, writer, folder)) for name, make in PAGES.items()}


@pytest.mark.parametrize("size", ["desktop", "phone"])
def test_every_page_fits_and_everyone_can_read_it(watched, pages, size):
    scheme = {"desktop": "light", "phone": "dark"}[size]
    found = {}
    with watched.page(size, color_scheme=scheme) as page:
        for name, address in pages.items():
            page.goto(address)
            page.evaluate("document.querySelectorAll('details').forEach((d) => (d.open = true))")
            problems = violations(page)
            if wider := wider_than_its_window(page):
                problems.append(f"{wider} pixels wider than the window")
            if problems:
                found[name] = problems
    assert found == {}


def test_the_slider_shows_every_layer(watched, pages, explainer):
    wanted = explainer(TEXT, layers=[1], method="normxlogit").layer(1)
    strongest = max(wanted.words(), key=lambda word: abs(word.score))
    with watched.page() as page:
        page.goto(pages["layers"])
        slider = page.get_by_role("slider", name="Layer")
        slider.focus()
        assert slider.get_attribute("aria-valuetext") == "layer 3"
        page.keyboard.press("Home")
        assert slider.get_attribute("aria-valuetext") == "layer 1"
        assert page.locator(".nxl-slider [role=status]").inner_text().startswith(f"layer 1: {strongest.text} ")
        assert page.locator(".nxl-caption:visible").inner_text() == "layer 1"
        mark = page.locator(".nxl-mark:visible", has_text=strongest.text).first
        assert mark.evaluate("e => e.style.getPropertyValue('--s')") == "1.000"
        assert f"{strongest.score:+.2f}" in mark.get_attribute("title")
        page.goto(pages["labels-layers"])
        page.get_by_role("slider").press("Home")
        captions = page.locator(".nxl-caption:visible").all_inner_texts()
        assert captions == ["negative, layer 1", "positive, layer 1"]


def test_tables_sort_filter_and_open_cards(watched, pages):
    with watched.page() as page:
        page.goto(pages["batch"])
        rows = page.locator("section tbody tr")
        page.get_by_role("button", name="probability").press("Enter")
        values = [float(v.strip("%")) for v in page.locator("section td.nxl-number").all_inner_texts()]
        assert values == sorted(values, reverse=True)
        assert page.locator("[aria-sort]").get_attribute("aria-sort") == "descending"
        page.get_by_role("button", name="probability").click()
        assert rows.first.inner_text().startswith("3")  # "not a bad film", of which the model is least sure
        page.get_by_label("Find").fill("DELIGHT")
        assert rows.filter(visible=True).count() == page.locator("article").filter(visible=True).count() == 1
        assert page.locator(".nxl-filter [role=status]").inner_text() == "1 of 5"
        page.get_by_label("Find").fill("")
        page.get_by_label("Label").select_option("negative")
        assert rows.filter(visible=True).count() == 4
        assert not page.locator("#result-4 .nxl-text").is_visible()
        page.get_by_role("link", name="Dull.").click()
        page.locator("#result-4 .nxl-text").wait_for()
        page.emulate_media(media="print")
        assert not page.locator(".nxl-filter").is_visible()
        page.goto(pages["methods"])
        page.get_by_role("button", name="frozen-gradient").click()
        assert page.locator(".nxl-sort tbody th").first.inner_text() == "mediocre"
