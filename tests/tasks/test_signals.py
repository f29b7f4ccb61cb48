"""Models of pictures: called like text models, read in their own units, followed when they change."""

import pytest
import torch
import transformers

from normxlogit.errors import HeadMismatchError
from normxlogit.models.task_model import TaskModel
from normxlogit.surgery.headpiece import Headpiece
from normxlogit.surgery.parts import Parts
from normxlogit.surgery.trace import Form
from normxlogit.tasks import signals

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "num_labels": 3}


def vit():
    torch.manual_seed(0)
    config = transformers.ViTConfig(**SIZES, image_size=16, patch_size=8)
    model = transformers.ViTForImageClassification(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model.eval()


def batch_of(model, count=2):
    """Pictures, and a batch of them."""
    values = torch.rand(count, 3, 16, 16)
    encodings, _ = model.task.encode(model, {"pixel_values": values})
    return values, model.batch(encodings, list(range(count)))


def test_a_changed_head_is_followed():
    owner = vit()
    model = TaskModel(owner, None)
    _, batch = batch_of(model)
    with torch.inference_mode():
        before = model.run(batch).logits
        owner.classifier = torch.nn.Linear(32, 3)
        pictures, batch = batch_of(model)
        after = model.run(batch).logits
        expected = owner(pictures).logits
    torch.testing.assert_close(after, expected)
    assert (after - before).abs().max() > 1e-3


def test_a_token_stands_in_every_place_that_a_head_looks_at(monkeypatch):
    """A head that leaves out the first two places gives a number from three copies on."""
    for needed, most, tried in [(1, 16, [1]), (3, 16, [1, 2, 3]), (3, 3, [1, 2, 3]), (3, 2, None)]:
        monkeypatch.setattr(signals, "MOST_PLACES", most)
        model, places = TaskModel(vit(), None), []

        def tokens(head, hidden, places=places, needed=needed):
            places.append(head.piece.copies)
            assert hidden.shape == (1, 32)
            return torch.full((1, 3), torch.nan if head.piece.copies < needed else 1.0)

        monkeypatch.setattr(signals.Head, "tokens", tokens)
        parts = Parts(Headpiece("vit", Form(tuple), 1), "", True, "vit", False, None, False, *[None] * 6)
        if tried is None:
            with pytest.raises(HeadMismatchError, match="no number for a single token"):
                model.task.settle(parts, model.copy.pool, model)
        else:
            assert model.task.settle(parts, model.copy.pool, model).head.copies == needed
            assert places == tried


@pytest.mark.parametrize(
    "states",
    [
        None,
        (),
        (torch.zeros(1, 4, 2, 2),),
        (torch.zeros(1, 9, 2), torch.zeros(1, 4, 2)),
        (torch.zeros(1, 4, 2), torch.zeros(1, 4)),
    ],
)
def test_a_trunk_that_keeps_no_state_for_each_patch_has_those_of_its_patch_embedding(monkeypatch, states):
    model, real = TaskModel(vit(), None), signals.private_clone
    clones = iter([lambda _: lambda **inputs: {"hidden_states": states}, real, real])
    monkeypatch.setattr(signals, "private_clone", lambda module: next(clones)(module))
    encodings, _ = model.task.encode(model, {"pixel_values": torch.rand(1, 3, 16, 16)})
    assert encodings[0].signal.grid == (2, 2, 0), "four patches without the class token"
    model.prepare(model.batch(encodings, [0]))
    assert model.parts.embedding_output.path == "vit.embeddings.patch_embeddings.projection"
    with pytest.raises(HeadMismatchError, match="ViTForImageClassification keeps no state for each patch or frame"):
        _ = model.head
