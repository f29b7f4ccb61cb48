"""The calling convention of plain modules."""

import pytest
import torch
from torch import nn

from normxlogit.errors import UnsupportedModelError
from normxlogit.surgery.clone import clone
from normxlogit.surgery.plain_module import as_task_model, logits_of
from tests import plain

ROWS = torch.ones(2, 3)
TOKENS = torch.ones(2, 4, 3)
SPAN = torch.zeros(2, 4)


class Answer:
    logits = ROWS


@pytest.mark.parametrize(
    ("output", "shape"),
    [
        (ROWS, (2, 3)),
        ((torch.tensor(0.5), ROWS), (2, 3)),
        ([TOKENS, ROWS], (2, 4, 3)),
        ({"loss": torch.tensor(0.5), "logits": TOKENS}, (2, 4, 3)),
        ({"scores": ROWS}, (2, 3)),
        (Answer(), (2, 3)),
        (torch.ones(5), (5, 1)),
        ((SPAN, SPAN), (2, 4, 2)),
        ({"start_logits": SPAN, "end_logits": SPAN}, (2, 4, 2)),
    ],
)
def test_logits_in_any_form(output, shape):
    assert logits_of(output).shape == shape


@pytest.mark.parametrize(
    "output", [None, "text", {"a": ROWS, "b": ROWS}, torch.ones(2, 3).long(), torch.ones(1, 1, 1, 1)]
)
def test_no_logits(output):
    with pytest.raises(UnsupportedModelError, match=r"the module returns .*; its logits must be a tensor of shape"):
        logits_of(output)


class Various(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(8, 3)

    def forward(self, ids, attention_mask=None, **rest):
        assert attention_mask is not None
        assert "output_hidden_states" not in rest
        self.given = sorted(rest)
        return self.words(ids).mean(1)


def test_inputs_go_where_the_forward_has_names_for_them():
    model = clone(Various())
    logits = as_task_model(model, torch.tensor([[0, 1, 1]]))
    assert logits.shape == (1, 3)
    inputs = {name: torch.ones(1, 3, dtype=torch.long) for name in ("input_ids", "attention_mask", "token_type_ids")}
    found = model(**inputs, output_hidden_states=True, return_dict=True)
    assert found["logits"].shape == (1, 3)
    assert model.given == ["token_type_ids"]


def test_the_table_of_words_is_the_one_that_is_asked_for_the_ids():
    model = clone(plain.grown(plain.Transformer()))
    as_task_model(model, torch.tensor([[0, 1, 1]]))
    assert model.get_input_embeddings() is model.words
    assert clone(model).get_input_embeddings() is not model.words
    assert model.get_output_embeddings() is None


def test_what_a_module_does_wrong_is_said_once():
    class Silent(nn.Module):
        def __init__(self, answer):
            super().__init__()
            self.words, self.answer = nn.Embedding(8, 3), answer

        def forward(self, input_ids):
            return self.answer(self.words(input_ids))

    with pytest.raises(UnsupportedModelError, match=r"^the module returns a NoneType"):
        as_task_model(clone(Silent(lambda _: None)), torch.tensor([[0, 1]]))
    with pytest.raises(UnsupportedModelError, match=r"^Silent cannot read token ids of shape \(1, 2\): .*Error: "):
        as_task_model(clone(Silent(lambda words: words @ words)), torch.tensor([[0, 1]]))
