"""Every kind of page that the library writes, opened in a browser at the width of a desk and of a phone."""

import pytest

from normxlogit import ALL, Explainer, attribute, summarize
from normxlogit.corpus.summary_page import page as summary_page
from normxlogit.evaluation.deletion import deletion_curve
from normxlogit.render.curves import Curve
from tests import tiny
from tests.browser.conftest import violations, wider_than_its_window, write
from tests.factories import make_image, pair

TEXT = "The movie is mediocre, maybe even bad, but the two leads have a charm that one does not forget."
TEXTS = [TEXT, "An absolute delight!", "It is not a bad film, just a very long one.", "Dull.", "Great cast, no story."]
HOSTILE = "</script><script>alert(1)</script><img src=x onerror='alert(2)'>\"&\u2028\u202e bad"


@pytest.fixture(scope="module")
def explainer():
    return Explainer.from_pretrained()


@pytest.fixture(scope="module")
def writer():
    """A causal language model that reads a few hundred tokens."""
    tokenizer = tiny.tokenizer_for("llama")
    tokenizer.model_max_length = 400
    return Explainer(tiny.model("llama", "CausalLM", max_position_embeddings=400), tokenizer, name="a tiny llama")


def methods(explainer) -> str:
    found = explainer.compare(TEXT, ["normxlogit", "frozen-gradient", "random"])
    curves = []
    for a in found:
        c = deletion_curve(explainer, a)
        curves.append(Curve(a.method, f"probability of {c.target}", c.shares, c.highest_first, c.lowest_first, c.gap))
    return found.to_html(costs=["1 forward", "1 forward, 1 backward", "none"], curves=curves)


def summary(explainer, folder) -> str:
    attribute(explainer, [{"text": text} for text in TEXTS * 3], folder / "out", keep_text=True)
    return summary_page(summarize(folder / "out", min_count=1))


PAGES = {
    "text": lambda e, w, f: e(TEXT).to_html(),
    "labels": lambda e, w, f: e(TEXT, target=ALL).to_html(),
    "layers": lambda e, w, f: e(TEXT, layers=ALL).to_html(),
    "labels-layers": lambda e, w, f: e(TEXT, target=ALL, layers=ALL).to_html(),
    "pair": lambda e, w, f: pair().to_html(),
    "image": lambda e, w, f: make_image().to_html(),
    "methods": lambda e, w, f: methods(e),
    "batch": lambda e, w, f: e(TEXTS).to_html(),
    "generation": lambda e, w, f: w.generate("once upon a time the cat", max_new_tokens=8).to_html(),
    "citation": lambda e, w, f: w.cite(
        "the cat is here ?", ["the cat sat on the mat .", "a film is good ."], max_new_tokens=8
    ).to_html(),
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
