"""What the model would answer without a region of a picture, or seconds of a sound."""

import numpy as np
import pytest
import torch
import transformers

from normxlogit import Explainer, InputError
from tests.media.test_signals import PROCESSOR, picture, vit, wav2vec2


def test_a_box_of_a_picture_is_left_out() -> None:
    explainer = Explainer(vit(), PROCESSOR)
    a = explainer(picture(), verify="auto")
    box = tuple(int(edge) for edge in a.images[0].boxes[1, 2])
    removal = explainer.without(picture(), [box])
    assert removal.tokens == (a.media[0].first + a.media[0].shape[1] + 2,)
    same = explainer(picture(), verify=a.media[0].boxes[..., 0].size).verified.without(removal.tokens[0])
    assert removal.value == pytest.approx(same.value, abs=1e-6)


def test_seconds_of_a_sound_are_left_out() -> None:
    torch.manual_seed(0)
    convolutions = {"conv_dim": (16, 16), "conv_stride": (160, 2), "conv_kernel": (160, 2)}
    model, extractor = wav2vec2(**convolutions, num_feat_extract_layers=2), transformers.Wav2Vec2FeatureExtractor()
    explainer, samples = Explainer(model, extractor), np.random.default_rng(0).normal(size=16000).astype(np.float32)
    audio, removal = explainer(samples).audio[0], explainer.without(samples, (0.3, 0.5))
    inside = [i for i, (start, end) in enumerate(audio.times) if start < 0.5 and end > 0.3]
    assert list(removal.tokens) == [audio.first + i for i in inside]
    values = extractor(samples, sampling_rate=16000, return_tensors="pt")["input_values"]
    values[0, round(audio.times[inside[0], 0] * 16000) : round(audio.times[inside[-1], 1] * 16000)] = 0
    with torch.no_grad():
        expected = model(input_values=values).logits.softmax(-1)[0, explainer(samples).target.id]
    assert removal.value == pytest.approx(float(expected), abs=1e-4)
    with pytest.raises(InputError, match="seconds"):
        explainer.without(samples, (7.0, 8.0))
