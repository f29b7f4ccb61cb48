"""What people type without reading: places and masks of results, files of any kind, names of other packages."""

import inspect

import numpy as np
import pandas
import pytest
import torch

from normxlogit import Attributions, Explainer, InputError, MethodError, TargetError
from normxlogit.methods import method_named
from tests import tiny

TEXTS = ["the movie is good", "bad", "a cat sat", "it is not bad"]


@pytest.fixture(scope="module")
def many() -> Attributions:
    return tiny.explainer("bert")(TEXTS)


@pytest.mark.parametrize(
    "index", [[2, 0], np.array([2, 0]), pandas.Series([2, 0], index=[7, 9]), (2, 0), np.array([2, 0], np.uint8)]
)
def test_several_places_are_a_collection(many: Attributions, index: object) -> None:
    assert [a.text for a in many[index]] == ["a cat sat", "the movie is good"]
    assert isinstance(many[index], Attributions)


def test_a_mask_keeps_what_is_true(many: Attributions) -> None:
    mask = [True, False, False, True]
    for kind in (list, np.array, pandas.Series):
        assert [a.text for a in many[kind(mask)]] == [TEXTS[0], TEXTS[3]]
    frame = many.to_pandas("text")
    assert [a.text for a in many[frame["text"].str.contains("bad")]] == ["bad", "it is not bad"]


def test_other_places_are_what_they_were(many: Attributions) -> None:
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


@pytest.mark.parametrize(("name", "here"), [("LOO", "occlusion"), ("logit_lens", "logat")])
def test_other_names_of_methods_get_the_name_here(name: str, here: str) -> None:
    with pytest.raises(MethodError, match=here):
        method_named(name)
    assert method_named(here)


def test_a_misspelt_label_gets_the_one_that_was_meant() -> None:
    with pytest.raises(TargetError, match="did you mean 'positive'"):
        Explainer.from_pretrained()("good", target="postive")


@pytest.mark.parametrize("text", ["\u4eca\u5929 \u597d", "\u597d"])
def test_a_text_that_the_vocabulary_does_not_know_has_no_colours(text: str) -> None:
    drawn = str(Explainer.from_pretrained()(text))
    assert "unknown to the tokenizer" in drawn
    assert drawn.count("[UNK]") == 1, "it is said once"
    assert f"\n{text}\n" in f"{drawn}\n", "no mark behind any of them"


def test_special_tokens_alone_are_not_called_unknown() -> None:
    writer = tiny.explainer("llama", "CausalLM")
    first = {"input_ids": [[writer.tokenizer.cls_token_id]]}
    assert writer(first)[0].notes == ()


@pytest.mark.parametrize("name", [name for name in vars(Explainer) if name == "__call__" or not name.startswith("_")])
def test_what_help_shows_of_a_method_fits_on_a_screen(name: str) -> None:
    method = getattr(Explainer, name)
    if not callable(method):
        return
    line = name + str(inspect.signature(method))
    assert "normxlogit." not in line
    assert "typing." not in line
    assert len(line) < 1080  # characters: thirteen lines of a terminal


@pytest.mark.parametrize("layers", [np.array([1, 3]), torch.tensor([1, 3]), range(1, 4, 2)])
def test_layers_are_numbers_in_any_container(layers):
    assert tiny.explainer()("a cat", layers=layers).layers == (1, 3)
