"""What pictures and sounds are not taken for is refused in a line that says what to do."""

import pytest
import torch

from normxlogit import Explainer, InputError
from tests import tiny
from tests.media.test_signals import PROCESSOR, picture, pixels, vit


def test_outputs_of_a_picture_are_refused_with_what_to_call():
    pytest.importorskip("normxlogit.recorded")
    model, values = vit(), pixels(picture())
    with torch.no_grad():
        outputs = model(values, output_hidden_states=True)
    explainer = Explainer(model, PROCESSOR)
    with pytest.raises(InputError, match="call the explainer on the input itself"):
        explainer.from_outputs({"pixel_values": values}, outputs)
    assert len(explainer({"pixel_values": values})) == 1


def test_a_row_with_a_picture_or_a_sound_is_no_prompt(writer):
    for row in ({"image": "cat.jpg", "text": "what is it"}, {"audio": "dog.wav", "prompt": "what is it"}):
        for given in (row, [row]):
            with pytest.raises(InputError, match="a picture or a sound stands in a message"):
                writer.generate(given, max_new_tokens=1)


def test_a_model_of_texts_is_none_for_pictures():
    with pytest.raises(InputError, match="not for image-classification: leave out task="):
        Explainer(tiny.model("bert"), tiny.tokenizer_for("bert"), task="image-classification")
