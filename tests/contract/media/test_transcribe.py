"""A sound to a text, each token of which rests on moments of the sound."""

import inspect

import pytest

pytest.importorskip("normxlogit.media", reason="pictures and sounds are a wing")

from normxlogit import Explainer, InputError, UnsupportedModelError
from tests import tiny
from tests.contract.compare import refused
from tests.media.test_signals import sound
from tests.media.test_speech import frame_model, whisper


def test_a_transcript_is_what_the_model_generates_of_the_sound() -> None:
    explainer = Explainer(*whisper())
    assert explainer.transcribe(sound(), max_new_tokens=3, verify=1) == explainer.generate(
        sound(), max_new_tokens=3, verify=1
    )
    both = explainer.transcribe([sound(), sound(9000)], max_new_tokens=3)
    assert both[0] == explainer.transcribe(sound(), max_new_tokens=3)
    assert "max_new_tokens" in inspect.signature(explainer.transcribe).parameters


def test_what_does_not_transcribe_is_refused_by_name(tmp_path) -> None:
    refused(UnsupportedModelError, "does not transcribe", lambda: tiny.explainer().transcribe(sound()))
    refused(UnsupportedModelError, "does not transcribe", lambda: tiny.writer().transcribe(sound()))
    explainer = Explainer(*frame_model(tmp_path))
    refused(InputError, "sound", lambda: explainer.transcribe(3))
    refused(InputError, "num_beams", lambda: explainer.transcribe(sound(), num_beams=2))
