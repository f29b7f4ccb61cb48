"""Pictures that are compared with texts."""

import pytest
import torch

from normxlogit import Explainer, InputError
from tests.media.test_signals import picture
from tests.media.towers import TEXT, model_and_processor

pytest.importorskip("normxlogit.similarity")


def test_the_path_of_a_picture_is_a_picture_to_two_towers(tmp_path) -> None:
    explainer = Explainer(*model_and_processor())
    picture().save(tmp_path / "cat.png")
    cosine = explainer.similarity(TEXT, picture()).prediction.value
    assert explainer.similarity(TEXT, str(tmp_path / "cat.png")).prediction.value == pytest.approx(cosine, abs=1e-6)
    with pytest.raises(InputError, match="No such file"):
        explainer.similarity(TEXT, "dog.png")
    with pytest.raises(InputError, match="levels from 0 to 255"):
        explainer.similarity(TEXT, torch.randn(3, 32, 32))
