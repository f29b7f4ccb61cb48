import json

import numpy as np
import pytest

from normxlogit import Explainer
from tests import audio_lm, vlm

QUESTION = "what is on the left ?"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("vlm")
    made = vlm.llava()
    made.model.save_pretrained(path)
    made.processor.save_pretrained(path)
    vlm.picture().save(path / "street.png")
    return path


def test_a_question_about_a_picture_is_answered_with_its_patches(run, folder):
    out = folder / "why.json"
    picture = str(folder / "street.png")
    options = ["--max-new-tokens", "2", "--output", str(out)]
    code, _, err = run("generate", QUESTION, "--image", picture, "--model", str(folder), *options)
    assert code == 0, err
    found = json.loads(out.read_text())
    expected = Explainer(*vlm.llava()).generate(vlm.question(picture), max_new_tokens=2)
    assert found["completion"] == expected.completion
    np.testing.assert_allclose(found["scores"], expected.scores, atol=1e-5)
    assert found["media"][0]["name"] == "street.png"


def test_a_question_about_a_sound_is_answered_with_its_moments(run, tmp_path):
    soundfile = pytest.importorskip("soundfile")
    model, processor = audio_lm.qwen2_audio()
    for part in (model, processor):
        part.save_pretrained(tmp_path)
    soundfile.write(tmp_path / "dog.wav", audio_lm.sound(), audio_lm.RATE, subtype="FLOAT")
    out, options = tmp_path / "why.json", ["--max-new-tokens", "2", "--output", str(tmp_path / "why.json")]
    code, _, err = run("generate", QUESTION, "--audio", str(tmp_path / "dog.wav"), "--model", str(tmp_path), *options)
    assert code == 0, err
    found = json.loads(out.read_text())
    expected = Explainer(model, processor).generate(audio_lm.question(audio_lm.sound()), max_new_tokens=2)
    assert found["completion"] == expected.completion
    np.testing.assert_allclose(found["scores"], expected.scores, atol=1e-5)
    assert found["media"][0]["name"] == "dog.wav"
