"""Pictures without regions and sounds without moments: the model is asked again."""

import numpy as np
import pytest
import torch
import transformers

from normxlogit import Explainer
from tests.media.test_signals import PROCESSOR, RATE, picture, pixels, vit, wav2vec2
from tests.media.test_speech import frame_model, whisper


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
    torch.manual_seed(0)
    convolutions = {"conv_dim": (16, 16), "conv_stride": (160, 2), "conv_kernel": (160, 2)}
    model = wav2vec2(**convolutions, num_feat_extract_layers=2)
    extractor = transformers.Wav2Vec2FeatureExtractor()
    samples = np.random.default_rng(0).normal(size=16000).astype(np.float32)
    a = Explainer(model, extractor)(samples, verify=2)
    values = extractor(samples, sampling_rate=16000, return_tensors="pt")["input_values"]
    for removal in a.verified.single:
        start, end = a.audio[0].times[min(removal.tokens)][0], a.audio[0].times[max(removal.tokens)][1]
        assert end - start == pytest.approx(0.25, abs=0.03)
        changed = values.clone()
        changed[0, round(start * 16000) : round(end * 16000)] = 0
        with torch.no_grad():
            expected = model(input_values=changed).logits.softmax(-1)[0, a.target.id]
        assert removal.value == pytest.approx(float(expected), abs=1e-4)


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
