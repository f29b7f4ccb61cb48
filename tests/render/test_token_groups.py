"""Texts that are made of tokens, where the text itself is not known."""

from dataclasses import replace

import pytest

from normxlogit.render.token_groups import tokens_as_text
from tests.factories import make_attribution


def of_tokens(*tokens, sequence=None):
    a = make_attribution(["a"] * len(tokens), [1.0] * len(tokens), text="a " * len(tokens), special=False)
    units = replace(a.units, text=tokens, spans=None)
    if sequence is not None:
        units = replace(units, sequence=sequence)
    return replace(a, text=None, units=units)


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        (("the", "film", "##s", "!"), "the films !"),
        (("##s", "film"), "s film"),
        (("Ġthe", "Ġfilm", "s", "!"), "the films!"),
        (("▁the", "▁", "film"), "the ▁film"),
        (("the", "##", "film"), "the## film"),
    ],
)
def test_tokens_are_joined_at_their_marks_and_each_has_its_place(tokens, text):
    texts, groups = tokens_as_text(of_tokens(*tokens))
    assert texts == [text]
    assert [members for members, _, _ in groups] == [(index,) for index in range(len(tokens))]
    shown = [text[start:end] for _, start, end in groups]
    assert "".join(shown) == text.replace(" ", "")
    assert all(shown)


def test_special_tokens_have_no_place_and_a_pair_has_two_texts():
    a = make_attribution(scores=[1.0] * 10)
    texts, groups = tokens_as_text(replace(a, text=None, units=replace(a.units, spans=None)))
    assert texts == ["The movie is mediocre , maybe even bad ."]
    assert groups[0] == ((0,), 0, 0)
    assert groups[-1] == ((11,), 0, 0)
    texts, groups = tokens_as_text(of_tokens("a", "cat", "is", sequence=(0, 1, 1)))
    assert texts == ["a", "cat is"]
    assert groups == [((0,), 0, 1), ((1,), 0, 3), ((2,), 4, 6)]
