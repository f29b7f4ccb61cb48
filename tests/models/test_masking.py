"""Tokens taken out of a text, on its token ids."""

from dataclasses import replace

import pytest

from normxlogit.models.masking import masks, remove_tokens
from normxlogit.models.task_model import TaskModel
from tests import tiny


def encoded(family, kind="SequenceClassification", text=tiny.TEXTS[0]):
    model = TaskModel(tiny.model(family, kind), tiny.tokenizer_for(family))
    return model, model.encoder([text])[0]


def test_encoders_mask_in_place():
    model, encoding = encoded("bert")
    changed = remove_tokens(model, encoding, [1, 3])
    ids = list(encoding.ids)
    ids[1] = ids[3] = tiny.VOCABULARY["[MASK]"]
    assert changed.ids == ids
    assert changed.inputs["token_type_ids"] == encoding.inputs["token_type_ids"]
    assert encoding.ids[1] != ids[1], "the original stays"


@pytest.mark.parametrize(("family", "kind"), [("llama", "SequenceClassification"), ("gpt2", "CausalLM")])
def test_autoregressive_models_delete(family, kind):
    model, encoding = encoded(family, kind)
    assert not masks(model)
    changed = remove_tokens(model, encoding, [0, 2])
    assert changed.ids == [i for place, i in enumerate(encoding.ids) if place not in (0, 2)]
    assert len(changed) == len(encoding) - 2


def test_an_empty_text_becomes_a_beginning():
    model, encoding = encoded("gpt2", "CausalLM")
    assert remove_tokens(model, encoding, range(len(encoding))).ids == [tiny.VOCABULARY["[SEP]"]]
    model.tokenizer.bos_token = "[CLS]"
    assert remove_tokens(model, encoding, range(len(encoding))).ids == [tiny.VOCABULARY["[CLS]"]]


def test_positions_close_up_where_a_token_is_deleted():
    model = TaskModel(tiny.model("gpt2", "CausalLM"), tiny.tokenizer_for("gpt2"))
    given = {"input_ids": [[7, 8, 9, 10]], "position_ids": [[0, 1, 2, 3]]}
    changed = remove_tokens(model, model.encoder.from_batch(given)[0], [1])
    assert changed.inputs == {"input_ids": [7, 9, 10], "position_ids": [0, 1, 2]}


def test_what_is_masked_and_what_is_deleted():
    for family, kind, masked in [
        ("bert", "SequenceClassification", True),
        ("bert", "CausalLM", False),
        ("roberta", "MaskedLM", True),
        ("llama", "TokenClassification", False),
    ]:
        options = {"is_decoder": True} if kind == "CausalLM" else {}
        assert masks(TaskModel(tiny.model(family, kind, **options), tiny.tokenizer_for(family))) is masked
    model, _ = encoded("bert")
    model.tokenizer.mask_token = None
    assert not masks(model), "there is no mask"


def test_all_that_stands_at_the_beginning_of_an_empty_text():
    model, encoding = encoded("gpt2", "CausalLM")
    model.tokenizer.bos_token = None
    empty = remove_tokens(model, encoding, range(len(encoding)))
    assert (empty.ids, empty.tokens, empty.offsets, empty.word_ids) == ([3], ("[SEP]",), ((0, 0),), (None,))
    assert (empty.sequence_ids, empty.special, len(empty)) == ((None,), (True,), 1)
    model.tokenizer.eos_token = None
    assert remove_tokens(model, encoding, range(len(encoding))).ids == [model.filler]
    plainly = replace(encoding, offsets=None, word_ids=None)
    empty = remove_tokens(model, plainly, range(len(encoding)))
    assert empty.offsets is empty.word_ids is None
    assert len(remove_tokens(model, encoding, range(1, len(encoding)))) == 1
