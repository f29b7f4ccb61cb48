"""What is made of a model at one moment: when its hooks listen, and what is changed on the copy."""

import pytest
import torch
from torch import nn

from normxlogit.models.model_copy import ModelCopy
from normxlogit.models.task_model import TaskModel
from normxlogit.tasks.base import NO_ID
from tests import plain, tiny


def test_what_was_learned_begins_with_nothing():
    copy = ModelCopy(tiny.model("bert"))
    assert copy.current
    assert (copy.parts, copy.outputs) == (None,) * 2
    assert copy.adapted is copy.mixes_texts is False
    for proved in (copy.padding, copy.writes_padded, copy.writes_together, copy.causal):
        assert not proved.refuted
        assert not proved.cover(1, 2)
    assert copy.module is not copy.reference
    assert copy.embeddings is copy.embeddings


def test_activations_that_are_quantised_by_batch_mix_texts():
    model = tiny.model("bert")
    model.more = type("Linear", (nn.Linear,), {"__module__": "torch.ao.nn.quantized.dynamic.modules"})(1, 1)
    assert ModelCopy(model).mixes_texts


@pytest.mark.parametrize(
    ("family", "kind", "pad", "adapted", "after"),
    [
        ("llama", "SequenceClassification", None, True, NO_ID),
        ("llama", "SequenceClassification", 0, False, 0),
        ("llama", "SequenceClassification", 5, False, 5),
        ("llama", "CausalLM", None, False, None),
        ("bert", "MultipleChoice", 0, True, 0),
    ],
)
def test_what_is_changed_on_the_copy(family, kind, pad, adapted, after):
    model = tiny.model(family, kind)
    model.config.pad_token_id = pad
    copy = TaskModel(model, tiny.tokenizer_for(family)).copy
    assert copy.adapted is adapted
    assert (copy.module.config.pad_token_id, model.config.pad_token_id) == (after, pad)
    assert copy.outputs is None
    if kind == "MultipleChoice":
        assert copy.module(input_ids=torch.tensor([[2, 7, 3]])).logits.shape == (1, 1), "a choice is a text"


def test_a_plain_module_is_called_once_to_see_what_it_answers():
    module = plain.grown(plain.Transformer(4))
    model = TaskModel(module, tiny.tokenizer(), task="sequence-classification")
    copy, task = model.copy, model.task
    assert copy.outputs == 4
    assert task.labels == ("LABEL_0", "LABEL_1", "LABEL_2", "LABEL_3")
    assert copy.adapted is False


def test_what_is_watched_may_be_more_than_the_model():
    model, more = tiny.model("bert"), nn.Linear(1, 1)
    copy = ModelCopy(model, nn.ModuleList([model, more]))
    assert copy.current
    model.classifier.bias = None
    assert not copy.current
