"""Names that a misspelt one may stand for."""

import pytest

from normxlogit.methods import list_methods
from normxlogit.results.nearest import nearest

METHODS = [method.name for method in list_methods()]


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("normxlogti", "normxlogit"),
        ("frozen", "frozen-gradient"),
        ("Frozen_Gradient", "frozen-gradient"),
        ("occlusoin", "occlusion"),
        ("kernelshap", "kernel-shap"),
        ("lime2", "lime"),
        ("integrated", "integrated-gradients"),
    ],
)
def test_misspelt_and_shortened_names_are_recognised(typed, found):
    assert nearest(typed, METHODS)[0] == found


@pytest.mark.parametrize("typed", ["nope", "", "x", "li", "zzzzzzzzzz"])
def test_other_words_stand_for_nothing(typed):
    assert nearest(typed, METHODS) == []


def test_edits_count_once_each_and_the_nearest_comes_first():
    assert nearest("abcdefgh", ["abcdefhg", "bacdefhg", "abcdefgh2"]) == ["abcdefgh2", "abcdefhg", "bacdefhg"]
    assert nearest("abcd", ["abdc", "acbe", "abcdzzzzz"]) == ["abdc", "abcdzzzzz"]
    assert nearest("grad", METHODS, most=1) == ["gradient-norm"]
