"""What a model said, against its own outputs."""

import math
from dataclasses import replace

import pytest
import torch

from normxlogit.inputs.batching import Batch
from normxlogit.inputs.encoding import Encoding
from normxlogit.model.forward_pass import ForwardPass
from normxlogit.tasks.question_answering import QuestionAnswering


def test_an_answer_is_what_stands_between_its_ends():
    sequences = (None, 0, None, 1, 1, 1, None)
    offsets = ((0, 0), (0, 1), (0, 0), (0, 3), (3, 7), (8, 11), (0, 0))
    special = tuple(s is None for s in sequences)
    tokens = ("[CLS]", "x", "[SEP]", "the", " cat", "sat", "[SEP]")
    pair = Encoding({"input_ids": [5] * 7}, tokens, offsets, None, sequences, special, "x", "the cat sat on")
    alone = replace(pair, sequence_ids=tuple(None if s is None else 0 for s in sequences), text="the cat sat")
    logits = torch.zeros(1, 9, 2)
    logits[0, 3, 0] = logits[0, 4, 1] = 2.0
    mask = torch.tensor([[False] * 2 + [True] * 7])  # padded on the left

    def said(encoding, start, end):
        batch = Batch({}, mask, [encoding], [0])
        empty = torch.zeros(1, 9, 1)
        places = torch.tensor([[start, end]])
        run = ForwardPass(batch, empty, empty, None, logits[:, [start, end], [0, 1]], None, places, logits)
        (found,) = QuestionAnswering().answers(run)
        return found

    one = said(pair, 5, 6)
    assert (one.label, one.id) == ("the cat", 3)
    assert said(replace(pair, offsets=None), 5, 6).label == "the cat"
    assert said(replace(pair, text_pair=None), 6, 6).label == "cat", "its tokens, without the space"
    assert said(alone, 6, 7).label == "cat sat"
    assert said(pair, 2, 2).label == "", "no answer"
    e = math.exp(2)
    assert said(pair, 3, 4).value == 4.0
    whole = logits[0, 2:].softmax(0)
    assert said(pair, 3, 4).probability == pytest.approx(float(whole[1, 0] * whole[2, 1]))
    assert whole[1, 0] == pytest.approx(e / (e + 6)), "padding has no part in it"
    with pytest.raises(ValueError, match="not the forward pass of a question-answering model"):
        QuestionAnswering().answers(ForwardPass(Batch({}, mask, [pair], [0]), None, None, None, None, None, None))
