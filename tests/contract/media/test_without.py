"""What the model would answer without a region of a picture."""

import pytest

from normxlogit import Explainer
from tests.media.test_signals import PROCESSOR, picture, vit


def test_a_box_of_a_picture_is_left_out() -> None:
    explainer = Explainer(vit(), PROCESSOR)
    a = explainer(picture(), verify="auto")
    box = tuple(int(edge) for edge in a.images[0].boxes[1, 2])
    removal = explainer.without(picture(), [box])
    assert removal.tokens == (a.media[0].first + a.media[0].shape[1] + 2,)
    same = explainer(picture(), verify=a.media[0].boxes[..., 0].size).verified.without(removal.tokens[0])
    assert removal.value == pytest.approx(same.value, abs=1e-6)
