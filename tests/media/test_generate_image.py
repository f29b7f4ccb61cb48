import json

import numpy as np
import pytest

from normxlogit import Explainer
from tests.media import audio_lm, vlm

QUESTION = "what is on the left ?"


def with_picture(folder):
    vlm.picture().save(folder / "street.png")
    return vlm.llava(), vlm.question(str(folder / "street.png")), "street.png"


def with_sound(folder):
    soundfile = pytest.importorskip("soundfile")
    soundfile.write(folder / "dog.wav", audio_lm.sound(), audio_lm.RATE, subtype="FLOAT")
    return audio_lm.qwen2_audio(), audio_lm.question(audio_lm.sound()), "dog.wav"


@pytest.mark.parametrize("made", [with_picture, with_sound])
def test_a_question_about_a_picture_or_sound_is_answered_with_its_parts(run, tmp_path, made):
    (model, processor), question, name = made(tmp_path)
    for part in (model, processor):
        part.save_pretrained(tmp_path)
    out = tmp_path / "why.json"
    options = ["--model", str(tmp_path), "--max-new-tokens", "2", "--output", str(out)]
    code, _, err = run("generate", QUESTION, "--attach", str(tmp_path / name), *options)
    assert code == 0, err
    found = json.loads(out.read_text())
    expected = Explainer(model, processor).generate(question, max_new_tokens=2)
    assert found["completion"] == expected.completion
    np.testing.assert_allclose(found["scores"], expected.scores, atol=1e-5)
    assert found["media"][0]["name"] == name
