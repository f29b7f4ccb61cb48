"""Models of pictures: called like text models, read in their own units, followed when they change."""

from types import SimpleNamespace

import pytest
import torch
import transformers

from normxlogit.errors import HeadMismatchError, InputError, UnsupportedModelError
from normxlogit.models import signals
from normxlogit.models.signals import SignalModel
from normxlogit.surgery.headpiece import Headpiece
from normxlogit.surgery.parts import Parts
from normxlogit.surgery.trace import Form

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
    tokens = "normxlogit.surgery.headpiece.Head.tokens"
    monkeypatch.setattr(tokens, lambda self, hidden, rows=None: torch.full((len(hidden), 3), torch.nan))
    _, batch = batch_of(model)
    with pytest.raises(HeadMismatchError, match="no number for a single token"):
        model.prepare(batch)
    assert model.copy.parts is None, "parts that are not whole are not seen"


def test_nothing_to_read():
    with pytest.raises(InputError, match="no picture or sound"):
        SignalModel(vit(), None).signal_batch([], [], [])


def test_a_token_stands_in_every_place_that_a_head_looks_at(monkeypatch):
    """A head that leaves out the first two places gives a number from three copies on."""
    for needed, most, tried in [(1, 16, [1]), (3, 16, [1, 2, 3]), (3, 3, [1, 2, 3]), (3, 2, None)]:
        monkeypatch.setattr(signals, "MOST_PLACES", most)
        model, places = SignalModel(vit(), None), []

        def tokens(head, hidden, places=places, needed=needed):
            places.append(head.piece.copies)
            assert hidden.shape == (1, 32)
            return torch.full((1, 3), torch.nan if head.piece.copies < needed else 1.0)

        monkeypatch.setattr(signals.Head, "tokens", tokens)
        parts = Parts(Headpiece("vit", Form(tuple), 1), "", True, "vit", False, None, False, *[None] * 6)
        if tried is None:
            with pytest.raises(HeadMismatchError, match="no number for a single token"):
                model._settle(model.copy, parts)
        else:
            assert model._settle(model.copy, parts).head.copies == needed
            assert places == tried


def test_how_long_a_waveform_is_the_model_says_itself_and_any_other_signal_is_tried_once():
    model = SignalModel(vit(), None)
    assert (model.pad_id, model.copy.padding.refuted, model.device.type) == (0, False, "cpu")
    passes = []
    model.module.register_forward_hook(lambda *_: passes.append(1))
    for size, length, count in ((16, 5, None), (16, 5, 0)):
        passes.clear()
        assert model.length({"pixel_values": torch.rand(3, size, size)}) == length
        assert count is None or len(passes) == count, "its shape is known"
    asked = []

    class Waves:
        def _get_feat_extract_output_lengths(self, length):
            asked.append(int(length))
            return length // 10

    waves = SimpleNamespace(module=Waves(), _lengths={})
    assert SignalModel.length(waves, {"input_values": torch.zeros(95)}) == 9
    assert SignalModel.length(waves, {"input_values": torch.zeros(95)}) == 9
    assert asked == [95]


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
def test_a_trunk_that_keeps_no_state_for_each_patch_is_refused(monkeypatch, states):
    model = SignalModel(vit(), None)
    monkeypatch.setattr(signals, "private_clone", lambda _: lambda **inputs: {"hidden_states": states})
    with pytest.raises(UnsupportedModelError, match="ViTForImageClassification keeps no state for each patch or frame"):
        model.length({"pixel_values": torch.rand(3, 16, 16)})


def test_signals_are_stacked_as_texts_are():
    model = SignalModel(vit(), None)
    pictures, batch = batch_of(model, 3)
    assert torch.equal(batch.inputs["pixel_values"], torch.stack([p["pixel_values"] for p in pictures]))
    assert batch.inputs["input_ids"].tolist() == [[0] * 5] * 3
    assert batch.inputs["attention_mask"].tolist() == [[1] * 5] * 3
    assert batch.mask.dtype == torch.bool
    assert batch.indices == [0, 1, 2]
