"""Models of pictures: called like text models, read in their own units, followed when they change."""

import pytest
import torch
import transformers

from normxlogit.errors import HeadMismatchError, InputError
from normxlogit.models import signals
from normxlogit.models.signals import SignalModel

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
    pictures = [{"pixel_values": torch.rand(3, 16, 16)} for _ in range(count)]
    length = model.length(pictures[0])
    return pictures, model.signal_batch(pictures, [range(length)] * count, list(range(count)))


def test_token_ids_mean_nothing_to_the_copy():
    owner = vit()
    model = SignalModel(owner, None)
    pictures, batch = batch_of(model)
    assert batch.mask.shape == (2, 5), "four patches and the class token"
    assert batch.mask.all()
    with torch.inference_mode():
        run = model.run(batch, layers=True)
        own = owner(torch.stack([p["pixel_values"] for p in pictures])).logits
    torch.testing.assert_close(run.logits, own)
    assert len(run.states) == 3


def test_a_changed_head_is_followed():
    owner = vit()
    model = SignalModel(owner, None)
    _, batch = batch_of(model)
    with torch.inference_mode():
        before = model.run(batch).logits
        owner.classifier = torch.nn.Linear(32, 3)
        pictures, batch = batch_of(model)
        after = model.run(batch).logits
        own = owner(torch.stack([p["pixel_values"] for p in pictures])).logits
    torch.testing.assert_close(after, own)
    assert (after - before).abs().max() > 1e-3


def test_a_head_that_gives_no_number_for_a_token_is_refused(monkeypatch):
    monkeypatch.setattr(signals, "MOST_PLACES", 2)
    model = SignalModel(vit(), None)
    tokens = "normxlogit.surgery.headpiece.Headpiece.tokens"
    monkeypatch.setattr(tokens, lambda self, hidden, rows=None: torch.full((len(hidden), 3), torch.nan))
    _, batch = batch_of(model)
    with pytest.raises(HeadMismatchError, match="no number for a single token"):
        model.prepare(batch)
    assert model.copy.parts is None, "parts that are not whole are not seen"


def test_nothing_to_read():
    with pytest.raises(InputError, match="no picture or sound"):
        SignalModel(vit(), None).signal_batch([], [], [])
