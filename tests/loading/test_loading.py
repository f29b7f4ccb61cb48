"""What loading asks of transformers, which names it refuses, and what it says: each rule by itself."""

import pytest
import torch
import transformers

from normxlogit.loading.load import load
from tests import tiny
from tests.contract.test_right_or_refused import configure


@pytest.fixture
def asked(monkeypatch):
    """Note what each class of transformers is asked for."""
    seen = {}
    for name in ("AutoConfig", "AutoTokenizer", "AutoModelForSequenceClassification"):
        own = getattr(transformers, name).from_pretrained

        def noted(*given, own=own, name=name, **options):
            seen.setdefault(name, options)  # later ones are its own
            return own(*given, **{key: value for key, value in options.items() if key not in ("token", "revision")})

        monkeypatch.setattr(f"transformers.{name}.from_pretrained", noted)
    return seen


def test_half_precision_becomes_full_on_a_cpu_and_nowhere_else(tmp_path, asked):
    tiny.save(tmp_path, "bert")
    for named, options, wanted in [
        ("float16", {}, torch.float32),
        ("float16", {"device": "cpu"}, torch.float32),
        ("float16", {"device": "meta"}, "auto"),
        ("bfloat16", {}, "auto"),
        ("float16", {"dtype": "auto"}, "auto"),
        ("float16", {"dtype": "float64"}, "float64"),
        ("float16", {"dtype": torch.bfloat16}, torch.bfloat16),
        ("float16", {"device_map": "cpu"}, "auto"),
    ]:
        configure(tmp_path, dtype=named)
        asked.clear()
        model, _ = load(tmp_path, **options)
        assert asked["AutoModelForSequenceClassification"]["dtype"] == wanted
        assert model.device.type == options.get("device", "cpu")
