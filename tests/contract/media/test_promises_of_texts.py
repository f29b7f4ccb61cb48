"""With pictures and sounds: what is promised of texts holds, and what they are not taken for is refused."""

import dataclasses
import itertools
from functools import partial

import numpy as np
import pytest
import torch
import transformers
from PIL import Image

from normxlogit import Attribution, Explainer, InputError, UnsupportedModelError
from normxlogit.errors import DataError
from normxlogit.results.targets import Prediction
from tests import tiny
from tests.contract import test_safe_output as of_texts
from tests.contract.compare import present, refused, total
from tests.contract.test_prompts_as_they_come import gpt2
from tests.contract.test_safe_output import HOSTILE
from tests.media import vlm
from tests.media.factories import make_audio, make_image
from tests.media.test_signals import PROCESSOR, RATE, picture, pixels, vit
from tests.media.test_speech import whisper
from tests.media.towers import model_and_processor


@pytest.mark.parametrize("mode", ["L", "P", "RGBA", "LA", "1", "CMYK"])
def test_pictures_of_any_mode(mode):
    model, given = vit(), picture().convert(mode)
    result = Explainer(model, PROCESSOR)(given)
    with torch.no_grad():
        wanted = model(pixels(given.convert("RGB"))).logits[0]
    assert result.prediction.value == pytest.approx(float(wanted.max()), abs=1e-5)
    assert given.mode == mode
    if mode in ("L", "RGBA"):
        np.testing.assert_allclose(Explainer(model, PROCESSOR)(np.asarray(given)).scores, result.scores, atol=1e-5)


def test_pictures_and_sounds_check_their_own_fields():
    wrong = {make_image: [{"first": 2}, {"width": 0}, {"places": [[0.0, 1.0]]}, {"kind": "film"}]}
    wrong[make_audio] = [{"places": [[0.0, 1.0, 2.0]] * 4}, {"first": -1}]
    for state, changes in ((make().to_dict(), changes) for make, several in wrong.items() for changes in several):
        broken = state | {"media": [state["media"][0] | changes]}
        refused(DataError, "not an attribution: ", partial(Attribution.from_dict, broken))


def test_outputs_of_a_picture_are_refused_with_what_to_call():
    pytest.importorskip("normxlogit.recorded")
    explainer, values = Explainer(vit(), PROCESSOR), {"pixel_values": pixels(picture())}
    outputs = explainer.model(**values, output_hidden_states=True)
    message = "call the explainer on it"
    refused(UnsupportedModelError, message, lambda: explainer.from_outputs(values, outputs))
    assert len(explainer(values)) == 1


def test_what_pictures_and_sounds_are_not_taken_for_is_refused(writer):
    explainer = Explainer(vit(), PROCESSOR)
    refused(InputError, "more than 256 levels", lambda: explainer(picture().convert("F")))
    for method in present("occlusion", "integrated-gradients"):
        message = "with frozen-gradient, normxlogit or logat"
        refused(UnsupportedModelError, message, partial(explainer, picture(), method=method))
    message = "a picture or a sound stands in a message"
    for row in ({"image": "cat.jpg", "text": "what is it"}, {"audio": "dog.wav", "prompt": "what is it"}):
        refused(InputError, message, *(partial(writer.generate, given, max_new_tokens=1) for given in (row, [row])))
    make = partial(Explainer, tiny.model("bert"), tiny.tokenizer_for("bert"), task="image-classification")
    refused(InputError, "not for image-classification: leave out task=", make)


def photograph(path=None) -> Image.Image:
    """Return a picture that is stored on its side, as cameras do."""
    levels = np.random.default_rng(0).integers(0, 255, (24, 48, 3)).astype(np.uint8)
    photo = Image.fromarray(levels)
    exif = photo.getexif()
    exif[0x0112] = 6
    if path is None:
        photo.info["exif"] = exif.tobytes()
        return photo
    photo.save(path, exif=exif)
    return Image.open(path)


def test_a_photograph_on_its_side_is_explained_as_the_pipeline_answers_it(tmp_path) -> None:
    path = tmp_path / "photo.png"
    opened = photograph(path)
    pipeline = transformers.pipeline("image-classification", model=vit(), image_processor=PROCESSOR)
    explainer = Explainer(pipeline)
    answer = max(pipeline(opened), key=lambda one: one["score"])
    for photo in (opened, path, str(path)):
        a = explainer(photo)
        assert a.prediction.label == answer["label"]
        assert a.prediction.probability == pytest.approx(answer["score"], abs=1e-5)
    with pytest.raises(InputError) as refused:
        explainer([opened, "data:image/png;base64," + "A" * 5000])
    assert len(str(refused.value)) < 300, "a broken picture is not printed"


__all__ = ["gpt2"]


def test_a_picture_in_a_message_to_a_model_that_reads_texts_alone_is_refused(gpt2) -> None:
    for ask in (gpt2, gpt2.generate, lambda messages: gpt2.explain_completion(messages, "a cat")):
        with pytest.raises(InputError, match="texts alone"):
            ask(vlm.question(vlm.picture()))


def test_a_reader_of_other_inputs_is_refused_and_a_processor_gives_its_part() -> None:
    texts, pictures = tiny.model("bert", num_labels=3), model_and_processor()[1]
    for reader in (transformers.ViTImageProcessor(), transformers.Wav2Vec2FeatureExtractor()):
        refused(InputError, rf"reads texts, and was given a {type(reader).__name__}", partial(Explainer, texts, reader))
    by_part = Explainer(texts, pictures.tokenizer)("the movie").prediction
    assert Explainer(texts, pictures)("the movie").prediction == by_part
    vision = vit(image_size=32)
    refused(InputError, "reads pictures, and was given", lambda: Explainer(vision, tiny.tokenizer()))
    by_part = Explainer(vision, pictures.image_processor)(picture()).prediction
    assert Explainer(vision, pictures)(picture()).prediction == by_part


def test_a_sound_longer_than_the_model_hears_is_read_in_windows() -> None:
    model, processor = whisper()  # which hears two seconds
    explainer = Explainer(model, processor)
    times = np.arange(5 * RATE) / RATE
    samples = (np.sin(2 * np.pi * (200 + 100 * times) * times) * np.abs(np.sin(2 * times))).astype(np.float32)
    whole = explainer.generate(samples, max_new_tokens=3)
    assert any("read in 3 windows" in note for note in whole.notes)
    audio = whole.audio[0]
    assert audio.seconds == pytest.approx(5.0)
    assert audio.times[-1, 1] == pytest.approx(5.0, abs=0.03)
    row = 0
    heard = [np.flatnonzero(np.abs(shares) > 0) for shares in audio.scores]
    bounds = sorted({(int(places[0]), int(places[-1])) for places in heard if len(places)})
    assert all(before[1] < after[0] for before, after in itertools.pairwise(bounds))
    for first, last in bounds:
        begin, end = (round(float(audio.times[place, side]) * RATE) for place, side in ((first, 0), (last, 1)))
        single = explainer.generate(samples[begin:end], max_new_tokens=3)
        count = sum(1 for places in heard if len(places) and first <= places[0] <= last)
        np.testing.assert_allclose(total(whole)[row : row + count], total(single)[:count], atol=0.05)
        row += count
    assert row == len(whole.targets)
    assert " ".join(whole.text[a:b] for a, b in whole.offsets).split() == whole.text.split()


def hostile(make):
    return dataclasses.replace(make(), model=HOSTILE, notes=(HOSTILE,), predictions=(Prediction(HOSTILE, 0, 1.0, 0.5),))


@pytest.mark.parametrize("make", [make_image, make_audio])
def test_a_page_and_a_notebook_escape_everything(make, tmp_path):
    of_texts.test_a_page_and_a_notebook_escape_everything(lambda: hostile(make), make, tmp_path)


@pytest.mark.parametrize("make", [make_image, make_audio])
def test_a_terminal_and_a_repr_get_no_control_sequences(make, monkeypatch):
    of_texts.test_a_terminal_and_a_repr_get_no_control_sequences(lambda: hostile(make), make, monkeypatch)
