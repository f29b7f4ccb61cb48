"""What a user may call texts."""

import numpy as np
import pytest
import torch

from normxlogit import InputError
from normxlogit.inputs.texts import counted


def test_a_count_is_a_whole_number_from_one():
    assert [counted(number, "max_length") for number in (1, np.int8(3), torch.tensor(7))] == [1, 3, 7]
    for given in (0, -1, True, 2.5, "3", None, torch.tensor([1, 2])):
        with pytest.raises(InputError, match=r"^max_length must be a positive whole number, not "):
            counted(given, "max_length")
