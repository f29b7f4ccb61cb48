"""Classifiers of pictures that keep no state for each patch: contributions of the first map of vectors."""

import numpy as np
import pytest
import torch
import transformers

from normxlogit import ALL, Explainer, UnsupportedModelError
from tests.abilities import image_processor
from tests.media.test_signals import picture, pixels, shaken

PROCESSOR = image_processor("ViTImageProcessor", size={"height": 32, "width": 48})


def resnet(kind=transformers.ResNetForImageClassification):
    torch.manual_seed(0)
    config = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 2], num_labels=3)
    return shaken(kind(config))


class Shortcut(transformers.ResNetForImageClassification):
    """Adds the mean of the picture to its logits, past every feature map."""

    def forward(self, pixel_values, **options):
        outputs = super().forward(pixel_values, **options)
        outputs.logits = outputs.logits + pixel_values.mean()
        return outputs


def test_a_convolutional_network_is_its_own_gradient_times_its_first_feature_map():
    """ReLU, max-pooling and batch norms in evaluation mode have the slope that the frozen network holds."""
    model, maps = resnet(), []
    a = Explainer(model, PROCESSOR)(picture(), target=ALL)

    def keep(_, __, output):
        output.retain_grad()
        maps.append(output)

    hook = model.resnet.embedder.embedder.convolution.register_forward_hook(keep)
    logits = model(pixels(picture())).logits[0]
    hook.remove()
    for k in range(3):
        logits[k].backward(retain_graph=True)
        expected = (maps[0].grad * maps[0])[0].sum(0).detach().numpy()
        maps[0].grad = None
        np.testing.assert_allclose(a.images[0].scores[k], expected, rtol=1e-4, atol=1e-6)
    assert (a.media[0].shape, a.media[0].first) == ((16, 24), 0)
    np.testing.assert_allclose(a.scores.sum(-1) + a.bias, logits.detach(), rtol=1e-4)
    assert a.method == "frozen-gradient"


def test_a_bright_patch_in_a_dark_picture_is_not_taken_for_an_attention_sink():
    values = torch.zeros(1, 3, 32, 48)
    values[..., 8:16, 8:16] = 9.0
    model = resnet()
    a = Explainer(model, PROCESSOR)({"pixel_values": values})[0]
    assert a.sink is None
    grid = a.images[0].scores
    outside = np.ones_like(grid, dtype=bool)
    outside[2:10, 2:10] = False
    assert not grid[outside].any(), "a convolution without bias makes nothing of black"
    assert grid[~outside].any()
    with torch.inference_mode():
        assert a.scores.sum() + a.bias == pytest.approx(float(model(values).logits.max()), rel=1e-4)


def test_what_reaches_the_answer_past_the_feature_maps_is_refused():
    with pytest.raises(UnsupportedModelError, match="Shortcut does not read its pixel_values through one"):
        Explainer(resnet(Shortcut), PROCESSOR)(picture())
