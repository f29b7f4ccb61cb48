import numpy as np
import pytest
import torch
import transformers
from PIL import Image

from normxlogit import ALL, DataError, Explainer, HeadMismatchError, InputError
from tests.abilities import image_processor

SIZES = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 48, "num_labels": 3}
HIGH, WIDE, PATCH = 32, 48, 8
PROCESSOR = image_processor("ViTImageProcessor", size={"height": HIGH, "width": WIDE})
RATE = 16_000


def shaken(model):
    """Random weights large enough that places and layers differ."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model.eval()


def vit(**options):
    settings = SIZES | {"image_size": (HIGH, WIDE), "patch_size": PATCH} | options
    return shaken(transformers.ViTForImageClassification(transformers.ViTConfig(**settings)))


def picture(seed=0, size=(60, 50)):
    values = np.random.default_rng(seed).integers(0, 255, (size[1], size[0], 3), dtype=np.uint8)
    return Image.fromarray(values)


def pixels(image):
    return PROCESSOR(image, return_tensors="pt")["pixel_values"]


def test_a_picture_is_a_grid_of_patch_norms_times_the_head_on_each_patch():
    model = vit()
    a = Explainer(model, PROCESSOR)(picture(), method="normxlogit")
    with torch.inference_mode():
        out = model(pixels(picture()), output_hidden_states=True)
        hidden = model.vit(pixels(picture())).last_hidden_state[0]
        label = int(out.logits.argmax())
        wanted = [
            float(out.hidden_states[0][0, i].norm() * model.classifier(hidden[i])[label]) for i in range(len(hidden))
        ]
    assert a.token_ids == ()  # patches stand in no vocabulary
    assert a.prediction.id == label
    assert a.prediction.probability == pytest.approx(float(out.logits.softmax(-1)[0, label]), rel=1e-4)
    np.testing.assert_allclose(a.scores, wanted, rtol=1e-4, atol=1e-5)
    assert (a.media[0].shape, a.media[0].first) == ((4, 6), 1)
    assert a.special_tokens_mask == (True, *[False] * 24)
    np.testing.assert_array_equal(a.images[0].scores, a.scores[1:].reshape(4, 6))


def test_labels_layers_and_batches():
    explainer = Explainer(vit(), PROCESSOR)
    images = [picture(seed) for seed in range(3)]
    together = explainer(images, target=ALL, layers=ALL, method="normxlogit")
    assert together[0].images[0].scores.shape == (3, 3, 4, 6)
    for image, a in zip(images, together, strict=True):
        alone = explainer(image, target=2, layers=3, method="normxlogit")
        np.testing.assert_allclose(a[2].layer(3).scores, alone.scores[0], rtol=1e-4, atol=1e-5)
    last = explainer(images[0], target=2, method="normxlogit")
    np.testing.assert_allclose(last.scores, together[0][2].layer(3).scores, rtol=1e-4, atol=1e-5)
    contrast = explainer(images[0], target=2, contrast=0, method="normxlogit")
    other = explainer(images[0], target=0, method="normxlogit")
    np.testing.assert_allclose(contrast.scores, last.scores - other.scores, rtol=1e-3, atol=1e-4)


def test_a_head_that_reads_two_places_finds_the_patch_in_both():
    config = transformers.Dinov2Config(**SIZES, image_size=32, patch_size=PATCH)
    model = shaken(transformers.Dinov2ForImageClassification(config))
    processor = image_processor("ViTImageProcessor", size={"height": 32, "width": 32})
    a = Explainer(model, processor)(picture(), target=1, method="logat")
    with torch.inference_mode():
        hidden = model.dinov2(processor(picture(), return_tensors="pt")["pixel_values"]).last_hidden_state[0]
        wanted = [float(model.classifier(torch.cat([h, h]))[1]) for h in hidden]
    np.testing.assert_allclose(a.scores, wanted, rtol=1e-4, atol=1e-5)


def test_an_overlay_colours_each_patch_by_its_sign_and_strength():
    a = Explainer(vit(), PROCESSOR)(picture())
    white = Image.new("RGB", (60, 40), "white")
    drawn = np.asarray(a.images[0].overlay(white)).astype(int)[5::10, 5::10]  # one pixel of each patch
    strength = a.images[0].scores / np.abs(a.scores[1:]).max()
    strong = np.abs(strength) > 0.05
    assert (np.sign(drawn[..., 0] - drawn[..., 2]) == np.sign(strength))[strong].all(), "red for, blue against"
    assert drawn.min(-1).argmin() == np.abs(strength).argmax()
    with pytest.raises(DataError, match="choose"):
        Explainer(vit(), PROCESSOR)(picture(), target=ALL).images[0].overlay(white)


def wav2vec2(**options):
    convolutions = {"conv_dim": (16, 16, 16), "conv_stride": (5, 4, 4), "conv_kernel": (10, 4, 4)}
    positions = {"num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4, "classifier_proj_size": 16}
    config = transformers.Wav2Vec2Config(**SIZES | convolutions | positions | options)
    return shaken(transformers.Wav2Vec2ForSequenceClassification(config))


def sound(samples=4000, seed=0):
    return np.random.default_rng(seed).normal(size=samples).astype(np.float32)


def test_a_sound_is_a_row_of_frame_norms_times_the_head_on_each_frame():
    model, extractor = wav2vec2(), transformers.Wav2Vec2FeatureExtractor()
    a = Explainer(model, extractor)(sound(), method="normxlogit")
    values = extractor(sound(), sampling_rate=RATE, return_tensors="pt").input_values
    with torch.inference_mode():
        out = model(values, output_hidden_states=True)
        hidden = model.wav2vec2(values).last_hidden_state[0]
        label = int(out.logits.argmax())
        wanted = [
            float(out.hidden_states[0][0, i].norm() * model.classifier(model.projector(hidden[i]))[label])
            for i in range(len(hidden))
        ]
    assert a.prediction.id == label
    np.testing.assert_allclose(a.scores, wanted, rtol=1e-4, atol=1e-5)


def test_a_pooling_that_is_no_module_of_the_model_has_frozen_contributions():
    config = transformers.ASTConfig(**SIZES, max_length=64, num_mel_bins=32)
    model = transformers.ASTForAudioClassification(config).eval()
    extractor = transformers.ASTFeatureExtractor(num_mel_bins=32, max_length=64)
    explainer = Explainer(model, extractor)
    a = explainer(sound())
    with torch.inference_mode():
        logit = model(**extractor(sound(), sampling_rate=RATE, return_tensors="pt")).logits.max()
    assert a.method == "frozen-gradient"
    assert a.audio[0].times.max() == a.audio[0].seconds == 0.25
    assert len(a.top(99)) == (np.diff(a.audio[0].times) > 0).sum(), "padding is not ranked"
    assert a.scores.sum() + a.bias == pytest.approx(float(logit), abs=1e-4)
    with pytest.raises(HeadMismatchError):
        explainer(sound(), method="normxlogit")


def test_a_file_that_cannot_be_read_as_a_picture_is_named(tmp_path):
    explainer = Explainer(vit(), PROCESSOR)
    picture().save(tmp_path / "a.png")
    whole = (tmp_path / "a.png").read_bytes()
    for name, content in {"cut.png": whole[:-200], "text.png": b"not a picture", "\x1b[31mred.png": b""}.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=r"input 1.*cannot be read as a picture") as error:
            explainer([tmp_path / "a.png", tmp_path / name])
        assert "\x1b" not in str(error.value)
