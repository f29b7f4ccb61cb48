"""Where a picture or a sound enters a model."""

import pytest
import torch
from torch.nn import functional as F

from normxlogit.parts.signal_entry import SignalEntry


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_the_mean_of_a_patch_is_over_what_its_convolution_reads(axes):
    values = torch.rand(1, 3, *[7] * axes)
    kernel, stride, padding = (3,) * axes, (2,) * axes, (1,) * axes
    entry = SignalEntry("conv", tuple(values.shape), (1, 5, *[4] * axes), 1, (kernel, stride, padding))
    weight = torch.ones(1, 3, *kernel) / (3 * 3**axes)
    convolution = getattr(F, f"conv{axes}d")(values, weight, stride=2, padding=1)
    torch.testing.assert_close(entry.patch_means(values), convolution.flatten())
    assert entry.places == 4**axes


def test_the_mean_of_a_frame_that_a_linear_layer_reads_is_that_of_its_values():
    values = torch.rand(1, 6, 4)
    entry = SignalEntry("linear", (1, 6, 4), (1, 6, 8), 2)
    torch.testing.assert_close(entry.patch_means(values), values[0].mean(-1))
