"""What the model would answer without a region of a picture, or seconds of a sound."""

import numpy as np
import pytest
import torch
import transformers

from normxlogit import Explainer, InputError
from tests.media.test_signals import PROCESSOR, RATE, picture, vit, wav2vec2
from tests.media.test_speech import whisper


def test_a_box_of_a_picture_is_left_out() -> None:
    explainer = Explainer(vit(), PROCESSOR)
    a = explainer(picture(), verify="auto")
    box = tuple(int(edge) for edge in a.images[0].boxes[1, 2])
    removal = explainer.without(picture(), [box])
    assert removal.tokens == (a.media[0].first + a.media[0].shape[1] + 2,)
    same = explainer(picture(), verify=a.media[0].boxes[..., 0].size).verified.without(removal.tokens[0])
    assert removal.value == pytest.approx(same.value, abs=1e-6)


def test_regions_of_a_picture_are_shown_by_their_names() -> None:
    a = Explainer(vit(), PROCESSOR)(picture())
    grouped = a.group({"the ear": (0, 0, 1, 1)})
    for drawn in (str(grouped), grouped.to_html()):
        assert "the ear" in drawn
        assert "the rest of the picture" in drawn


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


def test_seconds_of_a_sound_are_a_source_with_the_moments_in_them() -> None:
    torch.manual_seed(0)
    convolutions = {"conv_dim": (16, 16), "conv_stride": (160, 2), "conv_kernel": (160, 2)}
    model, extractor = wav2vec2(**convolutions, num_feat_extract_layers=2), transformers.Wav2Vec2FeatureExtractor()
    a = Explainer(model, extractor)(np.random.default_rng(0).normal(size=16000).astype(np.float32))
    (audio,), start, end = a.audio, 0.305, 0.5
    inside = [max(0.0, min(e, end) - max(s, start)) / (e - s) for s, e in audio.times.tolist()]
    grouped = a.group({"the middle": (start, end)})
    assert grouped.units.kind[:2] == ("region", "medium")
    assert grouped.scores[0] == pytest.approx(float((audio.scores * inside).sum()), abs=1e-5)
    assert grouped.scores.sum() == pytest.approx(float(a.scores.sum()), abs=1e-5)
    for seconds in ((1.5, 2.0), (0.5, 0.2)):
        with pytest.raises(InputError, match="seconds"):
            a.group({"after it": seconds})
    with pytest.raises(InputError, match="overlap"):
        a.group({"one": (0.1, 0.5), "other": (0.4, 0.6)})
    with pytest.raises(InputError, match="one sound"):
        Explainer.from_pretrained()("It is bad.").group({"x": (0.5, 1.0)})


def test_a_long_sound_loses_moments_in_the_windows_that_it_was_transcribed_in() -> None:
    model, processor = whisper()  # which hears two seconds
    times = np.arange(5 * RATE) / RATE
    samples = (np.sin(2 * np.pi * (200 + 100 * times) * times) * np.abs(np.sin(2 * times))).astype(np.float32)
    g = Explainer(model, processor).generate(samples, max_new_tokens=3, verify=2)
    assert not any("not verified" in note for note in g.notes)
    audio, prompt = g.audio[0], g.prompt_tokens
    heard = [np.flatnonzero(np.abs(shares) > 0) for shares in audio.scores]
    windows = sorted({(int(moments[0]), int(moments[-1])) for moments in heard})
    assert len(windows) == 3
    for removal in (g.verified.original, *g.verified.single, g.verified.together):
        quiet, expected = samples.copy(), 0.0
        for moment in removal.tokens:
            start, end = (round(float(edge) * RATE) for edge in audio.times[moment - audio.first])
            quiet[start:end] = 0
        for first, last in windows:
            begin, end = (round(float(edge) * RATE) for edge in (audio.times[first, 0], audio.times[last, 1]))
            own = [g.token_ids[prompt + row] for row, moments in enumerate(heard) if first <= moments[0] <= last]
            features = processor.feature_extractor(quiet[begin:end], sampling_rate=RATE, return_tensors="pt")
            ids = torch.tensor([[*g.token_ids[:prompt], *own]])
            with torch.no_grad():
                logits = model(input_features=features.input_features, decoder_input_ids=ids[:, :-1]).logits[0]
            expected += float(logits[prompt - 1 :].log_softmax(-1).gather(1, torch.tensor(own)[:, None]).sum())
        assert removal.value == pytest.approx(expected, abs=0.02)  # a border lies within a moment
    losses = [abs(removal.value - g.verified.original.value) for removal in g.verified.single]
    assert min(losses) > 0.02
