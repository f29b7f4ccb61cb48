"""What the model would answer without a region of a picture, or seconds of a sound."""

from functools import partial

import numpy as np
import pytest
import torch
import transformers

from normxlogit import Explainer, InputError
from tests.contract.compare import refused
from tests.media.test_signals import PROCESSOR, RATE, picture, pixels, vit, wav2vec2
from tests.media.test_speech import frame_model, whisper


def listener():
    """An explainer of a classifier of sounds with short moments, and a second of noise."""
    torch.manual_seed(0)
    convolutions = {"conv_dim": (16, 16), "conv_stride": (160, 2), "conv_kernel": (160, 2)}
    model = wav2vec2(**convolutions, num_feat_extract_layers=2)
    samples = np.random.default_rng(0).normal(size=16000).astype(np.float32)
    return Explainer(model, transformers.Wav2Vec2FeatureExtractor()), samples


def heard(explainer, samples, start, end):
    """What the caller's own model answers to a sound that is silent for some seconds."""
    values = transformers.Wav2Vec2FeatureExtractor()(samples, sampling_rate=16000, return_tensors="pt")["input_values"]
    values[0, round(float(start) * 16000) : round(float(end) * 16000)] = 0
    return explainer.model(input_values=values).logits.softmax(-1)[0].tolist()


def test_a_box_of_a_picture_is_left_out() -> None:
    explainer = Explainer(vit(), PROCESSOR)
    a = explainer(picture(), verify="auto")
    box, unit = a.images[0].boxes[1, 2], a.media[0].first + a.media[0].shape[1] + 2
    same = explainer(picture(), verify=a.media[0].boxes[..., 0].size).verified.without(unit)
    assert same.units == ("(20, 12.5, 30, 25)",)
    for written in (box, [box], [tuple(box.tolist())], (20, 12, 30, 25), [(0, 20, 12.5, 30, 25)], (22, 15, 23, 16)):
        removal = explainer.without(picture(), written)
        assert (removal.tokens, removal.value) == ((unit,), pytest.approx(same.value, abs=1e-6))
    assert explainer.without(picture(), (20, 12, 35, 25)).tokens == (unit, unit + 1)
    refused(InputError, "60 x 50 pixels", lambda: explainer.without(picture(), (0, 0, 61, 50)))
    refused(InputError, "is not a region", lambda: explainer.without(picture(), (0, 0, 10)))


def test_seconds_of_a_sound_are_left_out() -> None:
    explainer, samples = listener()
    audio, removal = explainer(samples).audio[0], explainer.without(samples, (0.3, 0.5))
    np.testing.assert_array_equal(explainer(samples).to_pandas()[["start_seconds", "end_seconds"]], audio.times)
    assert explainer.without(samples, audio.times[7]).tokens == (audio.first + 7,)
    inside = [i for i, (start, end) in enumerate(audio.times) if start < 0.5 and end > 0.3]
    assert list(removal.tokens) == [audio.first + i for i in inside]
    expected = heard(explainer, samples, audio.times[inside[0], 0], audio.times[inside[-1], 1])
    assert removal.value == pytest.approx(expected[explainer(samples).target.id], abs=1e-4)
    refused(InputError, "seconds", lambda: explainer.without(samples, (7.0, 8.0)))


def test_seconds_of_a_sound_are_a_source_with_the_moments_in_them() -> None:
    explainer, samples = listener()
    a = explainer(samples)
    (audio,), start, end = a.audio, 0.305, 0.5
    inside = [max(0.0, min(e, end) - max(s, start)) / (e - s) for s, e in audio.times.tolist()]
    grouped = a.group({"the middle": (start, end)})
    assert grouped.units.kind[:2] == ("region", "medium")
    assert grouped.scores[0] == pytest.approx(float((audio.scores * inside).sum()), abs=1e-5)
    assert grouped.scores.sum() == pytest.approx(float(a.scores.sum()), abs=1e-5)
    for seconds in ((1.5, 2.0), (0.5, 0.2)):
        refused(InputError, "seconds", partial(a.group, {"after it": seconds}))
    refused(InputError, "overlap", lambda: a.group({"one": (0.1, 0.5), "other": (0.4, 0.6)}))
    refused(InputError, "one sound", lambda: Explainer.from_pretrained()("It is bad.").group({"x": (0.5, 1.0)}))


def test_the_model_is_asked_about_a_picture_without_its_regions() -> None:
    model = vit()
    a = Explainer(model, PROCESSOR)(picture(), verify=2)
    values = pixels(picture())
    for removal in a.verified.single:
        (token,) = removal.tokens
        row, column = divmod(token - a.media[0].first, a.media[0].shape[1])
        around = torch.zeros(values.shape[2:], dtype=torch.bool)
        around[max(0, row * 8 - 8) : row * 8 + 16, max(0, column * 8 - 8) : column * 8 + 16] = True
        around[row * 8 : row * 8 + 8, column * 8 : column * 8 + 8] = False
        changed = values.clone()
        mean = values[0][:, around].mean(1)[:, None, None]
        changed[0, :, row * 8 : row * 8 + 8, column * 8 : column * 8 + 8] = mean
        with torch.no_grad():
            expected = model(pixel_values=changed).logits.softmax(-1)[0, a.target.id]
        assert removal.value == pytest.approx(float(expected), abs=1e-5)


def test_the_model_is_asked_about_a_sound_without_its_moments() -> None:
    explainer, samples = listener()
    a = explainer(samples, verify=2)
    for removal in a.verified.single:
        start, end = a.audio[0].times[min(removal.tokens)][0], a.audio[0].times[max(removal.tokens)][1]
        assert end - start == pytest.approx(0.25, abs=0.03)
        assert removal.value == pytest.approx(heard(explainer, samples, start, end)[a.target.id], abs=1e-4)


def test_a_transcript_without_moments_has_the_probability_that_the_model_gives_it(tmp_path) -> None:
    samples = (np.sin(np.arange(24_000) ** 1.3 / 50) * np.linspace(0, 1, 24_000)).astype(np.float32)
    for model, processor in (whisper(), frame_model(tmp_path)):
        g = Explainer(model, processor).generate(samples, verify=2, max_new_tokens=3)
        for removal in (g.verified.original, *g.verified.single, g.verified.together):
            quiet = samples.copy()
            for moment in removal.tokens:
                start, end = (round(float(edge) * RATE) for edge in g.audio[0].times[moment - g.audio[0].first])
                quiet[start:end] = 0
            extracted = processor.feature_extractor(quiet, sampling_rate=RATE, return_tensors="pt")
            written = torch.tensor([g.token_ids[g.prompt_tokens :]])
            with torch.no_grad():
                if hasattr(extracted, "input_features"):
                    ids = torch.tensor([g.token_ids])
                    logits = model(input_features=extracted.input_features, decoder_input_ids=ids[:, :-1]).logits
                    chances = logits[0, g.prompt_tokens - 1 :].log_softmax(-1)
                    expected = float(chances.gather(1, written.T).sum())
                else:
                    expected = -float(model(input_values=extracted.input_values, labels=written).loss)
            assert removal.value == pytest.approx(expected, abs=1e-3)
        table = g.to_pandas()
        measured = table[table.value_without.notna()]
        assert set(measured.kind) == {"moment"}
        assert set(measured.position) == {moment for removal in g.verified.single for moment in removal.tokens}
