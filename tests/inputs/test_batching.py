import pytest
import torch

from normxlogit.inputs.batches import batches, collate
from normxlogit.inputs.encoding import Encoding


def test_lengths_do_not_mix_where_they_must_not():
    texts = [encoding(*range(length)) for length in (5, 9, 5, 7, 9, 5)]
    assert sorted(map(sorted, batches(texts, 8192, pad=False))) == [[0, 2, 5], [1, 4], [3]]


def encoding(*ids):
    count = len(ids)
    inputs = {"input_ids": list(ids), "token_type_ids": [1] * count}
    return Encoding(inputs, ("x",) * count, None, None, (0,) * count, (False,) * count)


@pytest.mark.parametrize("left", [True, False])
def test_padding_is_the_padding_id_in_the_ids_and_zero_elsewhere(left):
    texts = [encoding(5, 6, 7), encoding(8)]
    made = collate(texts, [4, 2], pad_id=9, left=left, device=torch.device("cpu"))
    short = [9, 9, 8] if left else [8, 9, 9]
    assert made.inputs["input_ids"].tolist() == [[5, 6, 7], short]
    own = [0, 0, 1] if left else [1, 0, 0]
    assert made.inputs["token_type_ids"].tolist() == [[1, 1, 1], own]
    assert made.inputs["attention_mask"].tolist() == [[1, 1, 1], own]
    assert made.mask.tolist() == [[True, True, True], [bool(i) for i in own]]
    assert made.indices == [4, 2]


@pytest.mark.parametrize(("budget", "sizes"), [(12, [3]), (11, [2, 1]), (8, [2, 1]), (7, [1, 1, 1]), (1, [1, 1, 1])])
def test_texts_times_longest_stays_within_the_budget(budget, sizes):
    texts = [encoding(*range(4))] * 3
    assert [len(group) for group in batches(texts, budget)] == sizes
    mixed = [encoding(*range(4)), encoding(*range(3)), encoding(*range(4))]
    assert [len(group) for group in batches(mixed, budget)] == sizes, "padding counts"
