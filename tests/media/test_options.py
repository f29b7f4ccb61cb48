import pytest

from normxlogit import Explainer, InputError
from tests.media.test_signals import PROCESSOR, picture, vit


@pytest.mark.parametrize("options", [{"position": 0}, {"long_text": "truncate"}, {"long_text": "window"}], ids=repr)
def test_a_picture_has_neither_position_nor_length(options):
    e = Explainer(vit(), PROCESSOR)
    with pytest.raises(InputError, match=r"position= chooses a token|long_text= is for texts"):
        e(picture(), **options)
