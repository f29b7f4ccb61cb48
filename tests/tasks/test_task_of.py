"""What a model is for by its class, and the position that a tagger explains."""

import pytest
import torch
import transformers

from normxlogit.inputs.batching import Batch
from normxlogit.inputs.encoding import Encoding
from normxlogit.tasks import all_tasks, head_error, task_name
from normxlogit.tasks.answers import AnswerPosition
from normxlogit.tasks.tagging import AtTaggedToken


def batch_of(*specials, left=0):
    """Texts by whether each token is special, padded."""
    width = max(map(len, specials)) + left
    mask = torch.tensor([[False] * left + [True] * len(s) + [False] * (width - left - len(s)) for s in specials])
    encodings = [
        Encoding({"input_ids": [5] * len(s)}, ("x",) * len(s), None, None, (0,) * len(s), tuple(s)) for s in specials
    ]
    inputs = {"input_ids": torch.full(mask.shape, 5)}
    return Batch(inputs, mask, encodings, list(range(7, 7 + len(encodings))))


@pytest.mark.parametrize("left", [0, 2])
def test_the_first_entity_or_else_the_first_word(left):
    batch = batch_of([True, False, False, True], [True, False, False], left=left)
    logits = torch.zeros(2, 4 + left, 3)
    logits[..., 1] = 1.0  # all outside
    tagger = AtTaggedToken(lambda: ("PER", "O", "LOC"))
    assert tagger.of_batch(batch, logits).tolist() == [left + 1, left + 1]
    logits[:, left + 2, 0] = logits[:, left, 2] = 2.0  # an entity, and one at a special token
    logits[1, left + 2, 0] = 0.5
    assert tagger.of_batch(batch, logits).tolist() == [left + 2, left + 1]
    other = AtTaggedToken(lambda: ("PER", "X", "LOC"))
    assert other.of_batch(batch, logits).tolist() == [left + 1, left + 1], "no label means outside"
    batch.encodings[0].__dict__["position"] = 3
    assert tagger.of_batch(batch, logits).tolist() == [left + 3, left + 1], "as the caller says"
    assert AnswerPosition().of_batch(batch, None) is None


AUTO_CLASSES = sorted(name for name in dir(transformers) if name.startswith("AutoModelFor"))


def classes_of(name: str) -> list[str]:
    kinds = getattr(transformers, name)._model_mapping._model_mapping.values()
    return [kind for entry in kinds for kind in (entry if isinstance(entry, tuple) else (entry,))]


@pytest.mark.parametrize("name", AUTO_CLASSES)
def test_each_class_has_a_task_or_a_reason(name):
    for kind in classes_of(name):
        task = task_name(kind)
        if task is None:
            assert "\n" not in head_error(kind)
            assert head_error(kind)
        else:
            assert task in all_tasks()
