"""Fine-tuning learns, and leaves a folder that anything can load."""

import pytest
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from normxlogit import Explainer
from paper.finetuning.classification import finetune
from paper.finetuning.trainer import Recipe

from .material import base, write_reviews

pytestmark = pytest.mark.filterwarnings("ignore")  # Trainer and PEFT warn of their own plans


def test_learns_and_writes_a_normal_folder(tmp_path):
    data, source, out = write_reviews(tmp_path / "data"), base(tmp_path), tmp_path / "out"
    recipe = Recipe(epochs=6, learning_rate=3e-3, batch_size=16)
    figures = finetune("sst2", source, out, data_dir=data, recipe=recipe)
    assert figures["accuracy"] > 0.9
    model = AutoModelForSequenceClassification.from_pretrained(out)
    assert model.config.id2label == {0: "negative", 1: "positive"}
    assert AutoTokenizer.from_pretrained(out).mask_token == "[MASK]"
    explainer = Explainer.from_pretrained(out)
    assert explainer("the movie is good").prediction.label == "positive"
    card = (out / "README.md").read_text()
    assert f"{figures['accuracy']:.4f}" in card
    assert str(tmp_path) not in card
    assert not (out / "checkpoints").exists()


def test_lora_is_merged(tmp_path):
    pytest.importorskip("peft")
    data, source, out = write_reviews(tmp_path / "data"), base(tmp_path, "llama", "CausalLM"), tmp_path / "out"
    recipe = Recipe(epochs=8, learning_rate=1e-2, batch_size=16, lora_rank=4, patience=8)
    assert finetune("sst2", source, out, data_dir=data, recipe=recipe)["accuracy"] > 0.9
    model = AutoModelForSequenceClassification.from_pretrained(out)
    assert not [name for name, _ in model.named_parameters() if "lora" in name]
    assert model.config.pad_token_id == 0
