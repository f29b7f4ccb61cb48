"""Collections keep their class, draw whatever they hold, and are saved and loaded."""

import copy
import json
import re
from pathlib import Path

import numpy as np
import pandas
import pytest
import torch

from normxlogit import Attributions, Explainer, InputError
from tests import tiny
from tests.contract.compare import comes_back, same

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
    np.testing.assert_allclose(compared[:2].agreement, np.array(compared.agreement)[:2, :2])
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
    assert [sorted(one) for one in data] == [["scores", "signed"], *[["shares"]] * len(sources)]
    elements(Attributions(sources).to_html())
    assert len(elements(generated.to_html())[1][0]["scores"][0]) == generated.prompt_tokens


def test_sources_are_saved_and_loaded(sources, tmp_path):
    for saved in (*sources, Attributions(sources)):
        comes_back(saved, tmp_path)
    assert Attributions(sources).to_dataset()["completion"] == [one.completion for one in sources]


def test_several_texts_are_compared_one_by_one(explainer):
    texts, methods = [TEXT, "the movie is bad"], ["normxlogit", "frozen-gradient"]
    for given in (texts, (text for text in texts), np.array(texts)):
        comparisons = explainer.compare(given, methods)
        for comparison, text in zip(comparisons, texts, strict=True):
            alone = explainer.compare(text, methods)
            assert [a.method for a in comparison] == [a.method for a in alone]
            same(comparison, alone)


TEXTS = ["the movie is good", "bad", "a cat sat", "it is not bad"]


@pytest.fixture(scope="module")
def many() -> Attributions:
    return tiny.explainer("bert")(TEXTS)


def test_places_and_masks_of_any_kind_choose_results(many) -> None:
    for index in ([2, 0], np.array([2, 0]), pandas.Series([2, 0], index=[7, 9]), (2, 0), np.array([2, 0], np.uint8)):
        assert [a.text for a in many[index]] == ["a cat sat", "the movie is good"]
        assert isinstance(many[index], Attributions)
    for kind in (list, np.array, pandas.Series):
        assert [a.text for a in many[kind([True, False, False, True])]] == [TEXTS[0], TEXTS[3]]
    assert [a.text for a in many[many.to_pandas("text")["text"].str.contains("bad")]] == ["bad", "it is not bad"]
    assert many[1].text == many[np.int64(1)].text == "bad"
    assert [a.text for a in many[1:3]] == TEXTS[1:3]
    assert len(many[[]]) == 0
    for index in ([True], [0.5], ["a"], [[0]]):
        with pytest.raises(InputError, match=r"mask|chosen"):
            many[index]
    with pytest.raises(IndexError):
        many[[9]]


def test_the_lowest_scores_are_the_other_end(many: Attributions) -> None:
    a = many[0]
    lowest = a.top(3, lowest=True)
    plain = sorted(float(s) for s, special in zip(a.scores, a.special_tokens_mask, strict=True) if not special)
    assert [token.score for token in lowest] == plain[:3]
    assert all(a.tokens[token.position] == token.text for token in lowest)


@pytest.mark.parametrize(
    ("text", "unknown"), [("\u4eca\u5929 \u597d", 3), ("\u597d", 1), ("a bad film \U0001f600 , really", 1)]
)
def test_a_word_that_the_tokenizer_does_not_know_is_coloured_and_named(text: str, unknown: int, tmp_path: Path) -> None:
    explainer = Explainer.from_pretrained()
    a, drawn = explainer(text), str(explainer(text))
    (note,) = a.notes
    assert note in drawn
    assert a.tokens.count("[UNK]") == unknown
    strongest = max(abs(word.score) for word in a.words())
    line = next(line for line in drawn.splitlines() if line.startswith("The tokenizer does not know"))
    for word in a.words():
        if a.tokens[word.position] == "[UNK]":
            assert word.text in line
            assert f"{word.text}(" in drawn or abs(word.score) < strongest / 8, "coloured like any other"
    a.to_html(tmp_path / "page.html")
    assert "unknown to the tokenizer, and read as: [UNK]" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "[UNK]" in str(explainer.compare(text, ["normxlogit", "frozen-gradient"]))


def test_known_words_and_special_tokens_have_no_note_on_unknown_ones() -> None:
    assert Explainer.from_pretrained()("a good film").notes == ()
    writer = tiny.explainer("llama", "CausalLM")
    assert writer({"input_ids": [[writer.tokenizer.cls_token_id]]})[0].notes == (), "special tokens are known"


@pytest.mark.parametrize("layers", [np.array([1, 3]), torch.tensor([1, 3]), range(1, 4, 2)])
def test_layers_are_numbers_in_any_container(layers):
    assert tiny.explainer()("a cat", layers=layers).layers == (1, 3)


def test_the_legend_of_a_comparison_says_what_signs_mean_and_how_colours_are_scaled(explainer):
    for methods in (["normxlogit", "frozen-gradient"], ["input-norm", "frozen-gradient"]):
        compared = explainer.compare(TEXT, methods, target="LABEL_1")
        for drawn in (str(compared), compared.to_html()):
            assert "for LABEL_1" in drawn
            assert "against LABEL_1" in drawn
            assert "each method by its own largest score" in drawn
    unsigned = str(explainer.compare(TEXT, ["input-norm", "input-norm:norm_of=word_embedding"]))
    assert "importance" in unsigned
    assert "against" not in unsigned


def test_a_word_counts_once_in_each_text(explainer):
    results = explainer(["bad film bad bad bad", "a bad plot"])
    in_texts = [np.mean([word.score for word in a.words() if word.text == "bad"]) for a in results]
    (bad,) = [word for word in results.top(20) if word.text == "bad"]
    assert (bad.texts, bad.score) == (2, pytest.approx(np.mean(in_texts)))
    assert [word.text for word in results.top(min_texts=2)] == ["bad"]


def test_the_agreement_of_methods_is_asked_by_their_names():
    explainer = Explainer(tiny.model("bert"), tiny.tokenizer_for("bert"))
    both = explainer.compare(tiny.TEXTS[0], ["normxlogit", "logat", "normxlogit:norm_of=word_embedding"])
    agreement = both.agreement
    first, middle, last = agreement.methods
    assert middle == "logat"
    assert first != last, "settings tell two of one method apart"
    table = np.asarray(agreement)
    assert agreement[first, "logat"] == agreement["logat", first] == table[0, 1]
    assert agreement["logat", "logat"] == pytest.approx(1)
    assert all(name in repr(agreement) for name in agreement.methods)
    for wrong in (("logat", "lime"), "logat"):
        with pytest.raises(InputError, match="name two of the methods"):
            agreement[wrong]
