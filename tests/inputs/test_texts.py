"""What a user may call texts."""

import array

import numpy as np
import pandas
import pytest
import torch

from normxlogit import InputError
from normxlogit.inputs.texts import counted, read_texts

TEXTS = ["the cat", "bad"]
PAIRS = [("the cat", "sat"), ("is it", "bad")]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "cannot read texts from a NoneType"),
        (7, "cannot read texts from a int"),
        (1.5, "cannot read texts from a float"),
        (np.float64(2), "cannot read texts from a float"),
        (object(), "cannot read texts from a object"),
        ({"label": 1}, "a dict without a column of texts was given"),
        (b"the \xff", "bytes that are not UTF-8"),
        ({"the cat", "bad"}, "a set has no order"),
        (np.array([["the", "cat"], ["a", "b"]]), "several columns"),
        (pandas.DataFrame({"text": TEXTS, "other": TEXTS}), "DataFrame with several texts was given"),
        (torch.tensor([1, 2]), "input 0 must be a string or a pair.*not Tensor"),
        (array.array("i", [1, 2]), "input 0 must be a string or a pair.*not int"),
        (["fine", None], "input 1 must be .*not NoneType"),
        (["fine", 2.5], "input 1 must be .*not float"),
        (["fine", float("nan")], "input 1 must be .*not float"),
        (["fine", 3], "input 1 must be .*not int"),
        (["fine", b"\xff"], "input 1 is bytes that are not UTF-8"),
        (["fine", ["a", "b"]], r"input 1 must be .*not list \(a pair is a tuple\)"),
        (["fine", {"text": "a", "other": "b"}], r"a dict with several texts .* as \(data\['text'\], data\['other'\]\)"),
        (("only",), "input 0 is a tuple of one string"),
        (["fine", ("only",)], "input 1 is a tuple of one string"),
        ((), "input 0 must be .*not an empty tuple"),
        (("a", "b", "c"), "input 0 must be .*not a tuple of str, str, str"),
        (["fine", ("a", None)], "input 1 must be .*not a tuple of str, NoneType"),
        ((("a", "b"), ("c", "d")), "input 0 must be .*not a tuple of tuple, tuple"),
        ("", "input 0 is empty"),
        (["fine", "  \n"], "input 1 is empty"),
        (["fine", ("", " ")], "input 1 is empty"),
        (["fine", "half \ud83d here"], "input 1 holds half a character .* at 5"),
        (["fine", ("a", "\udc00")], "input 1 holds half a character .* at 0"),
    ],
)
def test_what_is_no_text_is_refused_with_its_place(given, message):
    with pytest.raises(InputError, match=message):
        read_texts(given)


def test_a_count_is_a_whole_number_from_one():
    assert [counted(number, "max_length") for number in (1, np.int8(3), torch.tensor(7))] == [1, 3, 7]
    for given in (0, -1, True, 2.5, "3", None, torch.tensor([1, 2])):
        with pytest.raises(InputError, match=r"^max_length must be a positive whole number, not "):
            counted(given, "max_length")
