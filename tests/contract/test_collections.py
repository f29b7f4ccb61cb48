"""Collections keep their class, draw whatever they hold, and are saved and loaded."""

import copy
import json
import re

import numpy as np
import pytest

import normxlogit
from normxlogit import Attributions
from tests import tiny

TEXT = "the movie is not good but a great film"
PROMPT = "the cat sat on the mat . the movie is not good . a great film"


@pytest.fixture(scope="module")
def writer():
    return tiny.writer(length=400)


@pytest.fixture(scope="module")
def sources(writer):
    return [
        writer.explain_completion(PROMPT, " the cat is here", sources="sentence"),
        writer.explain_completion(PROMPT, " a film . the plot", sources="word", parts="word", method="occlusion"),
        writer.explain_completion(PROMPT, " bad", sources={"first": (0, 20), "last": (40, 55)}, parts="token"),
    ]


def test_a_slice_of_compared_methods_is_compared(explainer):
    compared = explainer.compare(TEXT, ["normxlogit", "frozen-gradient", "occlusion"])
    for part in (compared[:2], compared[::-1], copy.copy(compared), compared.filter(lambda a: True)):
        assert part.comparable
    np.testing.assert_allclose(compared[:2].agreement, compared.agreement[:2, :2])
    assert "agree" in compared[1:].to_html()
    assert str(compared[:2]).count("normxlogit") >= 1
    assert compared[0].method == "normxlogit"
    assert compared[5:] == []
    assert not compared[:1].comparable
    assert "agree" not in compared[:1].to_html()
    assert not explainer([TEXT, "bad"]).comparable


def elements(page):
    """The ids of a page, all different, and the data that its scripts read."""
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    data = re.findall(r'<script type="application/json" class="nxl-data">(.*?)</script>', page, re.DOTALL)
    return ids, [json.loads(one) for one in data]


def test_several_generated_texts_are_one_page(writer, tmp_path):
    many = writer.generate(["the cat sat", "the movie is not"], max_new_tokens=3)
    assert many.to_html(tmp_path / "page.html", title="Both") is None  # a notebook shows what its last line returns
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.count("<article") == 2
    _, data = elements(page)
    assert [len(one["scores"][0]) for one in data] == [g.prompt_tokens for g in many]
    for one, g in zip(data, many, strict=True):
        for index, row in enumerate(one["scores"]):
            np.testing.assert_allclose(row, g.scores[index, : g.prompt_tokens + index], rtol=1e-4)
    assert "<title>Both</title>" in page
    assert many[:1].to_html().count("<article") == 1


def test_results_of_any_kinds_are_one_page(explainer, writer, sources):
    generated = writer.generate("the cat sat", max_new_tokens=3)
    mixed = Attributions([explainer(TEXT), generated, *sources])
    page = mixed.to_html()
    assert page.count("<article") == len(mixed)
    _, data = elements(page)
    assert [sorted(one) for one in data] == [
        ["scores", "signed"],
        *[["shares"]] * len(sources),
    ]
    elements(Attributions(sources).to_html())
    assert len(elements(generated.to_html())[1][0]["scores"][0]) == generated.prompt_tokens


@pytest.mark.parametrize("suffix", ["parquet", "json"])
def test_sources_are_saved_and_loaded(sources, tmp_path, suffix):
    path = tmp_path / f"one.{suffix}"
    for one in sources:
        one.save(path)
        assert normxlogit.load(path) == one
    Attributions(sources).save(path)
    assert normxlogit.load(path) == sources


def test_sources_become_a_dataset(sources):
    pytest.importorskip("datasets")
    rows = Attributions(sources).to_dataset()
    assert rows["completion"] == [one.completion for one in sources]


def test_several_texts_are_compared_one_by_one(explainer):
    texts, methods = [TEXT, "the movie is bad"], ["normxlogit", "frozen-gradient"]
    for given in (texts, (text for text in texts), np.array(texts)):
        comparisons = explainer.compare(given, methods)
        for comparison, text in zip(comparisons, texts, strict=True):
            alone = explainer.compare(text, methods)
            assert [a.method for a in comparison] == [a.method for a in alone]
            for several, single in zip(comparison, alone, strict=True):
                np.testing.assert_allclose(several.scores, single.scores, atol=1e-5)
