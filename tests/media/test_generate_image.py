"""`generate` beside a picture or a sound."""

import json

import numpy as np
import pytest

from normxlogit import Explainer
from tests.media import audio_lm, vlm

QUESTION = "what is on the left ?"


def with_picture(folder):
    """Save a model that reads pictures and a picture beside it; return its explainer and what is asked."""
    made = vlm.llava()
    made.model.save_pretrained(folder)
    made.processor.save_pretrained(folder)
    vlm.picture().save(folder / "street.png")
    return Explainer(*made), vlm.question(str(folder / "street.png")), "--attach", "street.png"


def with_sound(folder):
    soundfile = pytest.importorskip("soundfile")
    made = audio_lm.qwen2_audio()
    for part in made:
        part.save_pretrained(folder)
    soundfile.write(folder / "dog.wav", audio_lm.sound(), audio_lm.RATE, subtype="FLOAT")
    return Explainer(*made), audio_lm.question(audio_lm.sound()), "--attach", "dog.wav"


@pytest.mark.parametrize("made", [with_picture, with_sound])
def test_a_question_about_a_picture_or_sound_is_answered_with_its_parts(run, tmp_path, made):
    explainer, question, option, name = made(tmp_path)
    out = tmp_path / "why.json"
    options = ["--model", str(tmp_path), "--max-new-tokens", "2", "--output", str(out)]
    code, _, err = run("generate", QUESTION, option, str(tmp_path / name), *options)
    assert code == 0, err
    found = json.loads(out.read_text())
    expected = explainer.generate(question, max_new_tokens=2)
    assert found["completion"] == expected.completion
    np.testing.assert_allclose(found["scores"], expected.scores, atol=1e-5)
    assert found["media"][0]["name"] == name
