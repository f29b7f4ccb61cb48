"""Messages with pictures, and sounds, as they come."""

import itertools

import numpy as np
import pytest
import transformers

from normxlogit import Explainer, InputError
from tests import tiny
from tests.contract.compare import total
from tests.contract.test_prompts_as_they_come import gpt2
from tests.media import vlm
from tests.media.test_signals import RATE, picture, vit
from tests.media.test_speech import whisper
from tests.media.towers import model_and_processor

__all__ = ["gpt2"]


def test_a_picture_in_a_message_to_a_model_that_reads_texts_alone_is_refused(gpt2) -> None:
    for ask in (gpt2, gpt2.generate, lambda messages: gpt2.explain_completion(messages, "a cat")):
        with pytest.raises(InputError, match="texts alone"):
            ask(vlm.question(vlm.picture()))


def test_a_reader_of_other_inputs_is_refused_and_a_processor_gives_its_part() -> None:
    texts, pictures = tiny.model("bert", num_labels=3), model_and_processor()[1]
    for reader in (transformers.ViTImageProcessor(), transformers.Wav2Vec2FeatureExtractor()):
        with pytest.raises(InputError, match=rf"reads texts, and was given a {type(reader).__name__}"):
            Explainer(texts, reader)
    assert (
        Explainer(texts, pictures)("the movie").prediction
        == Explainer(texts, pictures.tokenizer)("the movie").prediction
    )
    vision = vit(image_size=32)
    with pytest.raises(InputError, match="reads pictures, and was given"):
        Explainer(vision, tiny.tokenizer())
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
