"""The precision in which weights are loaded."""

import pytest
import torch

from normxlogit.loading.load import load
from tests import tiny
from tests.contract.test_right_or_refused import configure


@pytest.mark.parametrize(
    ("named", "options", "wanted"),
    [
        ("float16", {}, torch.float32),
        ("float16", {"device": "cpu"}, torch.float32),
        ("float16", {"device": "meta"}, torch.float16),
        ("bfloat16", {}, torch.bfloat16),
        ("float16", {"dtype": "auto"}, torch.float16),
        ("float16", {"dtype": "float64"}, torch.float64),
        ("float16", {"dtype": torch.bfloat16}, torch.bfloat16),
        ("float16", {"device_map": "cpu"}, torch.float16),
    ],
)
def test_half_precision_becomes_full_on_a_cpu_and_nowhere_else(tmp_path, named, options, wanted):
    configure(tiny.save(tmp_path, "bert"), dtype=named)
    model, _ = load(tmp_path, **options)
    assert (model.dtype, model.device.type) == (wanted, options.get("device", "cpu"))
