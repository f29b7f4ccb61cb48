"""Pictures and sounds in any container, by a model in any precision: read as what they are, or refused."""

import base64
import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import transformers
from PIL import Image
from scipy.signal import resample_poly

from normxlogit import Attribution, Explainer, InputError
from tests.abilities import needs
from tests.contract.compare import same
from tests.contract.test_containers import CONTAINERS, TABLES
from tests.media import vlm
from tests.media.test_signals import PROCESSOR, RATE, picture, sound, vit, wav2vec2
from tests.media.test_speech import whisper
from tests.media.towers import model_and_processor

arrow, polars, datasets = (pytest.importorskip(name) for name in ("pyarrow", "polars", "datasets"))
soundfile = pytest.importorskip("soundfile")


def files(folder: Any) -> dict[str, tuple[list[Any], list[str]]]:
    """Return two pictures and two sounds, and the paths of their files, which tables hold."""
    pictures, sounds = [picture(seed) for seed in (0, 1)], [sound(), sound()[::-1].copy()]
    paths = {kind: [str(folder / f"{number}.{kind}") for number in (0, 1)] for kind in ("png", "wav")}
    for image, samples, png, wav in zip(pictures, sounds, *paths.values(), strict=True):
        image.save(png)
        soundfile.write(wav, samples, RATE, subtype="FLOAT")
    return {"image": (pictures, paths["png"]), "audio": (sounds, paths["wav"])}


@pytest.fixture(scope="module")
def kinds(tmp_path_factory) -> dict[str, tuple[list[Any], list[str]]]:
    return files(tmp_path_factory.mktemp("media"))


@pytest.fixture(scope="module")
def explainers() -> dict[str, Explainer]:
    return {
        "image": Explainer(vit(), PROCESSOR),
        "audio": Explainer(wav2vec2(), transformers.Wav2Vec2FeatureExtractor()),
    }


@pytest.mark.parametrize("kind", ["image", "audio"])
@pytest.mark.parametrize("container", CONTAINERS)
def test_inputs_in_any_container_are_explained_as_in_a_list(kinds, explainers, kind, container) -> None:
    (items, paths), explainer = kinds[kind], explainers[kind]
    given = paths if container.split()[0] in TABLES else items
    results = explainer(CONTAINERS[container](given, kind), method="frozen-gradient:read_at=0")
    same(results, explainer(items, method="frozen-gradient:read_at=0"))


def one_picture(image: Any, path: str) -> Iterator[Any]:
    """Yield a picture as people hold it in their hands."""
    levels = np.asarray(image)
    content = io.BytesIO()
    image.save(content, "PNG")
    yield from (image, path, levels, torch.from_numpy(levels.copy()), levels.tolist(), levels.transpose(2, 0, 1))
    yield from (content.getvalue(), {"bytes": content.getvalue(), "path": None}, {"image": {"path": path}})
    yield from (torch.from_numpy(levels.copy()).float().requires_grad_(), levels.astype(np.float64))
    yield from (levels.transpose(2, 0, 1).astype(np.int64), np.asarray(image.convert("RGBA")).transpose(2, 0, 1))
    yield from (f"file://{path}", base64.b64encode(content.getvalue()).decode(), {"img": image, "label": 1})
    processed = PROCESSOR(image, return_tensors="pt")["pixel_values"][0]
    yield from ({"pixel_values": processed}, {"pixel_values": processed.tolist(), "label": 1})
    content.seek(0)
    yield content


def one_sound(samples: Any, path: str) -> Iterator[Any]:
    """Yield a sound as people hold it in their hands."""
    with open(path, "rb") as file:
        content = file.read()
    with_rate = {"array": samples, "sampling_rate": RATE}
    tensor, stereo = torch.from_numpy(samples), np.stack([samples, samples], -1)
    yield from (samples, samples.tolist(), tensor, tensor.clone().requires_grad_(), pd.Series(samples), stereo)
    yield from (arrow.array(samples), polars.Series(samples), path, content, io.BytesIO(content), with_rate)
    yield from ({"audio": with_rate, "label": 1}, {"bytes": content, "path": None}, {"path": path, "bytes": None})
    yield from ((samples, RATE), (RATE, samples), (tensor[None], RATE), (stereo, RATE), soundfile.read(path))
    yield from ({"array": stereo.T, "sampling_rate": RATE}, {"waveform": tensor[None], "sample_rate": RATE})
    yield from ({"speech": samples.tolist(), "label": 1}, {"speech": samples, "sampling_rate": RATE})
    values = transformers.Wav2Vec2FeatureExtractor()(samples, sampling_rate=RATE).input_values[0]
    yield from ({"input_values": values}, {"input_values": values.tolist(), "label": 1})


@pytest.mark.parametrize(("kind", "given"), [("image", one_picture), ("audio", one_sound)])
def test_one_picture_or_sound_in_any_form_is_one(kinds, explainers, kind, given) -> None:
    explainer, (items, paths) = explainers[kind], kinds[kind]
    expected = explainer(items[0], method="frozen-gradient:read_at=0")
    for item in given(items[0], paths[0]):
        result = explainer(item, method="frozen-gradient:read_at=0")
        np.testing.assert_allclose(result.scores, expected.scores, atol=1e-4)


@pytest.mark.parametrize("tensors", ["pt", None])
def test_sounds_that_were_padded_to_one_length_are_read_without_padding(explainers, tensors) -> None:
    extractor = transformers.Wav2Vec2FeatureExtractor(return_attention_mask=True)
    sounds = [sound(), sound()[:3000]]
    processed = extractor(sounds, sampling_rate=RATE, padding=tensors is not None, return_tensors=tensors)
    results = explainers["audio"](processed)
    for result, expected in zip(results, explainers["audio"](sounds), strict=True):
        np.testing.assert_allclose(result.scores, expected.scores, atol=1e-4)
        assert result.audio[0].times[-1, 1] == expected.audio[0].times[-1, 1]


def test_the_rate_beside_samples_is_not_ignored(explainers) -> None:
    samples, doubled = sound(), resample_poly(sound(), 2, 1)
    for given in (
        {"waveform": samples[None], "sample_rate": 8000},
        {"speech": samples, "sampling_rate": 8000.0},
        (samples, 8000),
        pd.DataFrame({"speech": [samples, doubled], "sampling_rate": [8000, RATE]}),
        {"speech": [samples, samples], "sampling_rate": 8000},
    ):
        results = explainers["audio"](given)
        expected = explainers["audio"](doubled)
        for result in [results] if isinstance(results, Attribution) else results:
            np.testing.assert_allclose(result.scores, expected.scores, rtol=1e-4, atol=1e-5)
            assert result.audio[0].times[-1, 1] == pytest.approx(len(samples) / 8000, abs=0.01)  # half a frame
    for rates in (RATE, [RATE, RATE]):
        assert len(explainers["audio"]({"speech": [sound(), sound()], "sampling_rate": rates})) == 2
    with pytest.raises(InputError, match="sampling_rate must be a positive whole number"):
        explainers["audio"]({"array": samples, "sampling_rate": 44.1})


@pytest.mark.parametrize("axes", [(0, 1, 2, 3), (0, 3, 1, 2)])
@pytest.mark.parametrize("made", [np.asarray, lambda a: torch.from_numpy(a.copy()), lambda a: a.tolist()])
def test_an_array_of_several_pictures_is_several(explainers, axes, made) -> None:
    levels = np.random.default_rng(0).integers(0, 255, (2, 40, 48, 3)).astype(np.uint8)
    expected = [explainers["image"](Image.fromarray(image)).scores for image in levels]
    results = explainers["image"](made(levels.transpose(axes)))
    for result, scores in zip(results, expected, strict=True):
        np.testing.assert_allclose(result.scores, scores, atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "given", "reason"),
    [
        ("image", torch.randn(3, 32, 48), "levels from 0 to 255"),
        ("image", torch.rand(3, 32, 48), "levels from 0 to 255"),
        ("image", {1, 2}, "a picture or a list of them is expected, not set"),
        ("image", 3, "a picture or a list of them is expected, not int"),
        ("image", "https://example.org/cat.png", "pictures are not fetched"),
        ("image", pd.DataFrame({"label": [0, 1]}), "no column of pictures"),
        ("image", {"a": 1}, "no column of pictures"),
        ("image", [[picture(), picture(1)], [picture()]], "input 0 is a list; expected one list of pictures"),
        ("image", [picture(), None], "input 1 is a NoneType"),
        ("image", np.full((40, 48), 70000), "more than 256 levels"),
        ("audio", "https://example.org/cat.wav", "sounds are not fetched"),
        ("audio", (np.zeros(800, np.float32), 0), "sampling_rate must be a positive"),
        ("audio", {"audio": {"array": np.zeros(800)}}, "sampling_rate"),
        ("audio", 3, "a sound or a list of them is expected, not int"),
        ("audio", np.zeros((2, 20, 800)), "one channel"),
    ],
)
def test_what_is_no_picture_or_sound_is_refused_in_a_line(explainers, kind, given, reason) -> None:
    with pytest.raises(InputError, match=reason) as refusal:
        explainers[kind](given)
    assert "\n" not in str(refusal.value)


TOWERS = pytest.param("towers", marks=needs("hidden states of two towers"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", ["image", "audio", "speech", "prompt", TOWERS])
def test_every_precision_is_explained_with_the_model_answer(kinds, kind, dtype) -> None:
    (image, _), (samples, _) = kinds["image"][0], kinds["audio"][0]
    if kind == "image":
        model = vit().to(dtype)
        result = Explainer(model, PROCESSOR)(image)
        logits = model(PROCESSOR(image, return_tensors="pt")["pixel_values"].to(dtype)).logits
        assert result.prediction.value == pytest.approx(float(logits.detach().float().max()), rel=0.02, abs=0.05)
    elif kind == "audio":
        result = Explainer(wav2vec2().to(dtype), transformers.Wav2Vec2FeatureExtractor())(samples)
    elif kind == "towers":
        pytest.importorskip("normxlogit.similarity")
        model, processor = model_and_processor()
        result = Explainer(model.to(dtype), processor).similarity("a great film", image)
    else:
        (model, processor), prompt = (whisper(), samples) if kind == "speech" else (vlm.llava(), vlm.question(image))
        result = Explainer(model.to(dtype), processor).generate(prompt, max_new_tokens=2)
    assert np.isfinite(result.scores).all()
