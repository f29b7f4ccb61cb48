"""Photographs with an orientation tag, and documents whose text is missing."""

import numpy as np
import pytest
import transformers
from PIL import Image

from normxlogit import Explainer, InputError
from tests.media import vlm
from tests.media.test_signals import PROCESSOR, vit


def photograph(path=None) -> Image.Image:
    """Return a picture that is stored on its side, as cameras do."""
    levels = np.random.default_rng(0).integers(0, 255, (24, 48, 3)).astype(np.uint8)
    picture = Image.fromarray(levels)
    exif = picture.getexif()
    exif[0x0112] = 6
    if path is None:
        picture.info["exif"] = exif.tobytes()
    else:
        picture.save(path, exif=exif)
        picture = Image.open(path)
    return picture


def test_a_photograph_on_its_side_is_explained_as_the_pipeline_answers_it(tmp_path) -> None:
    path = tmp_path / "photo.png"
    opened = photograph(path)
    pipeline = transformers.pipeline("image-classification", model=vit(), image_processor=PROCESSOR)
    explainer = Explainer(pipeline)
    answer = max(pipeline(opened), key=lambda one: one["score"])
    for picture in (opened, path, str(path)):
        a = explainer(picture)
        assert a.prediction.label == answer["label"]
        assert a.prediction.probability == pytest.approx(answer["score"], abs=1e-5)
    with pytest.raises(InputError) as refused:
        explainer([opened, "data:image/png;base64," + "A" * 5000])
    assert len(str(refused.value)) < 300, "a broken picture is not printed"


def test_a_photograph_in_a_message_is_the_same_by_path_and_opened(tmp_path) -> None:
    model, processor = vlm.llava()
    explainer, path = Explainer(model, processor), tmp_path / "photo.png"
    opened_picture = photograph(path)
    by_path, opened = (
        explainer.explain_completion(vlm.question(picture), "the cat is red") for picture in (str(path), opened_picture)
    )
    np.testing.assert_allclose(by_path.images[0].scores, opened.images[0].scores, atol=1e-6)
    assert (opened.images[0].width, opened.images[0].height) == (24, 48)
