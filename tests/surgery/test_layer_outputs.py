"""Where layers' outputs pass by, against the hidden states that the model gives."""

import pytest
import torch

from normxlogit.models.task_model import TaskModel
from normxlogit.surgery.trace import tensor_of
from tests import tiny


@pytest.mark.parametrize("family", ["bert", "albert", "gpt2", "llama", "xlnet", "distilbert"])
def test_each_layer_is_returned_where_it_is_said_to_be(family):
    task = TaskModel(tiny.model(family), tiny.tokenizer_for(family))
    batch = task.batch(task.encoder(tiny.TEXTS[:1]), [0])
    run = task.run(batch, layers=True)
    places = [task.parts.embedding_output, *task.parts.outputs]
    assert len(places) == 4
    seen = {}
    for path in {place.path for place in places}:
        seen[path] = []
        module = task.module.get_submodule(path)
        module.register_forward_hook(lambda _, __, output, path=path: seen[path].append(tensor_of(output)))
    task.run(batch)
    for place, state in list(zip(places, run.states, strict=True))[:-1]:  # a norm may follow the last
        torch.testing.assert_close(seen[place.path][place.call - 1].permute(place.axes), state)
    assert len({(place.path, place.call) for place in places}) == 4
