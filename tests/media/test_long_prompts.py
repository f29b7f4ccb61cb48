import gc

import numpy as np
import pytest
import torch

from normxlogit import Explainer
from normxlogit.frozen.frozen_model import FrozenModel
from tests.media import vlm


@pytest.mark.parametrize("make", [vlm.llava, vlm.qwen2_vl, vlm.gemma3])
def test_layers_under_a_picture_run_again_and_find_no_keys_of_the_first_run(make, monkeypatch):
    """The configurations of some of these models are the only place where the cache of keys can be switched off."""
    model, processor = make()
    messages, written = vlm.question(vlm.picture()), "the cat is red"
    is_long, seen = FrozenModel._is_long, []

    def explained(change):
        monkeypatch.setattr(FrozenModel, "_is_long", change)
        return Explainer(model, processor).explain_completion(messages, written)

    def keeping_everything(self, batch):
        seen.append(is_long(self, batch))
        return False

    gc.collect()  # graphs in the tracebacks of errors that earlier tests expected
    kept, spared = explained(keeping_everything), explained(is_long)
    assert seen
    assert all(seen)
    scale = np.abs(kept.images[0].scores).max()
    np.testing.assert_allclose(spared.images[0].scores, kept.images[0].scores, atol=1e-5 * scale)
    np.testing.assert_allclose(spared.scores, kept.scores, atol=1e-5 * np.abs(kept.scores).max())
    assert not [t for t in gc.get_objects() if issubclass(type(t), torch.Tensor) and t.grad_fn is not None]
