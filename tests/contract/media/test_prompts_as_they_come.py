"""Messages with pictures, and sounds, as they come."""

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


def test_a_sound_longer_than_the_model_reads_is_refused_and_its_pieces_are_transcribed_each_alone() -> None:
    model, processor = whisper()  # which reads two seconds
    explainer = Explainer(model, processor)
    times = np.arange(5 * RATE) / RATE
    samples = (np.sin(2 * np.pi * (200 + 100 * times) * times) * np.abs(np.sin(2 * times))).astype(np.float32)
    with pytest.raises(InputError, match=r"has 5.0 s and .* reads 2 at once"):
        explainer.generate(samples, max_new_tokens=3)
    pieces = [samples[i : i + 2 * RATE] for i in range(0, len(samples), 2 * RATE)]
    transcripts = explainer.generate(pieces, max_new_tokens=3)
    assert [a.audio[0].seconds for a in transcripts] == pytest.approx([2.0, 2.0, 1.0])
    last = explainer.generate(pieces[2], max_new_tokens=3)
    np.testing.assert_allclose(total(transcripts[2]), total(last), atol=1e-3)
