"""Tasks of a module with two heads, each of which names the field that it explains."""

from functools import cached_property

import numpy as np
import pytest
import torch
from torch import nn

from normxlogit import Explainer, UnsupportedModelError, extending
from normxlogit.copies.clone import override_forward
from normxlogit.extending import AddedTask, Extension, ModelClasses
from normxlogit.tasks import all_tasks
from normxlogit.tasks.classification import Classification, Labels
from normxlogit.tasks.task_outputs import Outputs
from tests import tiny


class Topics(Labels):
    field = "topic"


class Topic(Classification):
    name = "topic"
    models = ModelClasses(plain=True)

    @cached_property
    def outputs(self):
        return Topics.of(self._model, self._labels)


class Urgencies(Outputs):
    field = "urgency"


class Urgency(Classification):
    name = "urgency"
    models = ModelClasses(plain=True)
    outputs = Urgencies(("urgency",), kind="value", outcomes=None)


class Adapted(Classification):
    name = "adapted"
    models = ModelClasses(plain=True)

    def adapt(self, module):
        override_forward(module, lambda original, *args, **inputs: original(*args, **inputs)["topic"])
        return True


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = tiny.model("bert").bert
        self.topic = nn.Linear(self.encoder.config.hidden_size, 3)
        self.urgency = nn.Linear(self.encoder.config.hidden_size, 1)

    def forward(self, input_ids, attention_mask):
        state = self.encoder(input_ids, attention_mask=attention_mask).last_hidden_state[:, 0]
        return {"topic": self.topic(state), "urgency": self.urgency(state)}


@pytest.fixture(autouse=True)
def registered_tasks(monkeypatch):
    added = [AddedTask(kind.name, f"{__name__}:{kind.__name__}", kind.models) for kind in (Topic, Urgency, Adapted)]
    monkeypatch.setattr(extending, "extensions", lambda: {**extending.wings(), __name__: Extension(tasks=added)})
    for cached in (extending.references, all_tasks):
        cached.cache_clear()
    yield
    monkeypatch.undo()
    for cached in (extending.references, all_tasks):
        cached.cache_clear()


@pytest.mark.parametrize("task", ["topic", "urgency"])
def test_each_task_explains_its_own_field(task):
    torch.manual_seed(0)
    module, tokenizer = TwoHeads().eval(), tiny.tokenizer_for("bert")
    inputs = tokenizer("the cat is not good", return_tensors="pt")
    answer = module(inputs["input_ids"], inputs["attention_mask"])[task][0].detach()
    a = Explainer(module, tokenizer, task=task)("the cat is not good", verify=2)
    assert a.prediction.id == int(answer.argmax())
    np.testing.assert_allclose(a.prediction.value, float(answer.max()), rtol=1e-4)
    np.testing.assert_allclose(a.scores.sum() + a.bias, a.prediction.value, atol=1e-4)


def test_a_field_that_a_copy_alone_returns_is_refused_in_words():
    explainer = Explainer(TwoHeads().eval(), tiny.tokenizer_for("bert"), task="adapted")
    with pytest.raises(UnsupportedModelError, match="and not one tensor; where `adapt`"):
        explainer("the cat is not good")
