"""What a user may call texts."""

import numpy as np
import pandas as pd
import pytest
import torch

from normxlogit import InputError
from normxlogit.inputs.texts import positive_integer, read_texts


def test_a_count_is_a_whole_number_from_one():
    assert [positive_integer(number, "max_length") for number in (1, np.int8(3), torch.tensor(7))] == [1, 3, 7]
    for given in (0, -1, True, 2.5, "3", None, torch.tensor([1, 2])):
        with pytest.raises(InputError, match=r"^max_length must be a positive whole number, not "):
            positive_integer(given, "max_length")


def test_text_and_text_pair_are_a_pair_as_in_pipelines():
    pairs = [("a", "c"), ("b", "d")]
    columns = {"text": ["a", "b"], "text_pair": ["c", "d"]}
    assert read_texts({"text": "a", "text_pair": "c"}) == (pairs[:1], True)
    for given in (columns, pd.DataFrame(columns | {"label": [0, 1]}), pd.DataFrame(columns).to_dict("records")):
        assert read_texts(given) == (pairs, False)
    assert read_texts([{"text": "a", "text_pair": None}]) == (["a"], False)
