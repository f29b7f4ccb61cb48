"""Pictures that people hand over every day are read as what they are, or refused."""

import numpy as np
import pytest
import torch

from normxlogit import Explainer, InputError, UnsupportedModelError
from tests.contract.compare import present
from tests.media.test_signals import PROCESSOR, picture, pixels, vit


@pytest.mark.parametrize("mode", ["L", "P", "RGBA", "LA", "1", "CMYK"])
def test_pictures_of_any_mode(mode):
    model, given = vit(), picture().convert(mode)
    result = Explainer(model, PROCESSOR)(given)
    with torch.no_grad():
        wanted = model(pixels(given.convert("RGB"))).logits[0]
    assert result.prediction.value == pytest.approx(float(wanted.max()), abs=1e-5)
    assert given.mode == mode
    if mode in ("L", "RGBA"):
        np.testing.assert_allclose(Explainer(model, PROCESSOR)(np.asarray(given)).scores, result.scores, atol=1e-5)


def test_pictures_that_would_be_cut_off_and_methods_of_texts():
    explainer = Explainer(vit(), PROCESSOR)
    with pytest.raises(InputError, match="more than 256 levels"):
        explainer(picture().convert("F"))
    for method in present("occlusion", "integrated-gradients"):
        with pytest.raises(UnsupportedModelError, match="frozen-gradient, normxlogit and logat explain these"):
            explainer(picture(), method=method)
