"""Models that are on this machine."""

import json

import pytest
from huggingface_hub import constants

from normxlogit.app import local_models as module
from normxlogit.app.local_models import local_models


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache of the hub, and what puts a model into it."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(module, "_packaged_models", list)

    def put(name, config, weights="model.safetensors"):
        folder = tmp_path / f"models--{name.replace('/', '--')}" / "snapshots" / "abc"
        folder.mkdir(parents=True)
        (folder.parents[1] / "refs").mkdir()
        (folder.parents[1] / "refs" / "main").write_text("abc")
        (folder / "config.json").write_text(config if isinstance(config, str) else json.dumps(config))
        (folder / weights).touch()

    return put


def test_models_are_found_with_what_they_do_and_read(cache):
    for name, architecture in {
        "org/writer": "LlamaForCausalLM",
        "a-classifier": "BertForSequenceClassification",
        "org/translator": "T5ForConditionalGeneration",
        "b-pictures": "ViTForImageClassification",
        "c-towers": "CLIPModel",
        "d-answers": "LlavaForConditionalGeneration",
    }.items():
        cache(name, {"architectures": [architecture]})
    assert [(m.name, m.generates, m.texts, "picture" in m.media) for m in local_models()] == [
        ("a-classifier", False, True, False),
        ("b-pictures", False, False, True),
        ("c-towers", False, False, True),
        ("d-answers", True, True, True),
        ("org/translator", True, True, False),
        ("org/writer", True, True, False),
    ]


@pytest.mark.parametrize(
    ("config", "weights"),
    [
        ({"architectures": ["Wav2Vec2ForSequenceClassification"]}, "model.safetensors"),
        ({"architectures": ["BertModel"]}, "model.safetensors"),
        ({"architectures": ["LlamaForCausalLM"]}, "pytorch_model.bin"),
        ({"architectures": None}, "model.safetensors"),
        ("[]", "model.safetensors"),
        ("{", "model.safetensors"),
    ],
)
def test_what_does_not_load_or_reads_neither_text_nor_picture_is_left_out(cache, config, weights):
    cache("org/other", config, weights)
    assert local_models() == []
