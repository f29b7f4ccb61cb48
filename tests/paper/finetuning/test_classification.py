"""Fine-tuning learns, stops, goes on, and leaves a folder that anything can load."""

import json
import random

import pytest
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from normxlogit import Explainer
from paper.finetuning.classification import finetune
from paper.finetuning.trainer import Recipe
from tests import tiny

pytestmark = pytest.mark.filterwarnings("ignore")  # Trainer and PEFT warn of their own plans


@pytest.fixture
def data(tmp_path):
    """Sentences whose label is whether they hold the word good."""
    rng = random.Random(0)
    folder = tmp_path / "data"
    folder.mkdir()
    for split, count in (("train", 160), ("validation", 40)):
        rows = []
        for _ in range(count):
            label = rng.randrange(2)
            words = [*rng.choices(["the", "movie", "cat", "plot", "is"], k=4), "good" if label else "bad"]
            rng.shuffle(words)
            rows.append({"sentence": " ".join(words), "label": label})
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def base(tmp_path, family, kind):
    folder = tmp_path / family
    tiny.model(family, kind, scale=1.0).save_pretrained(folder)
    tiny.tokenizer_for(family).save_pretrained(folder)
    return folder


def test_learns_and_writes_a_normal_folder(tmp_path, data):
    source, out = base(tmp_path, "bert", "MaskedLM"), tmp_path / "out"
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


def test_lora_is_merged(tmp_path, data):
    pytest.importorskip("peft")
    source, out = base(tmp_path, "llama", "CausalLM"), tmp_path / "out"
    recipe = Recipe(epochs=8, learning_rate=1e-2, batch_size=16, lora_rank=4, patience=8)
    assert finetune("sst2", source, out, data_dir=data, recipe=recipe)["accuracy"] > 0.9
    model = AutoModelForSequenceClassification.from_pretrained(out)
    assert not [name for name, _ in model.named_parameters() if "lora" in name]
    assert model.config.pad_token_id == 0


def test_goes_on_from_a_checkpoint(tmp_path, data, monkeypatch):
    import transformers

    source, out = base(tmp_path, "bert", "MaskedLM"), tmp_path / "out"
    recipe = Recipe(epochs=3, learning_rate=3e-3)

    class Stopped(Exception):
        pass

    original = transformers.Trainer.train

    def stopping(self, **kwargs):
        class Stop(transformers.TrainerCallback):
            def on_save(self, args, state, control, **_):
                if state.epoch >= 2:
                    raise Stopped

        self.add_callback(Stop())
        return original(self, **kwargs)

    monkeypatch.setattr(transformers.Trainer, "train", stopping)
    with pytest.raises(Stopped):
        finetune("sst2", source, out, data_dir=data, recipe=recipe)
    assert not (out / "config.json").exists(), "a run that was stopped must not look like a model"
    starts = []

    def watching(self, **kwargs):
        starts.append(kwargs["resume_from_checkpoint"])
        return original(self, **kwargs)

    monkeypatch.setattr(transformers.Trainer, "train", watching)
    finetune("sst2", source, out, data_dir=data, recipe=recipe)
    assert "checkpoint-10" in starts[0]
    assert (out / "config.json").exists()
