"""Fine-tuning on pairs of sentences: the loss, and what is learnt."""

import math

import pytest
import torch
from transformers import AutoModelForMaskedLM

from normxlogit import Explainer
from paper.alignment.measures import accuracy
from paper.finetuning.minimal_pairs import finetune, preference_loss
from paper.finetuning.trainer import Recipe
from paper.sentence_pairs import load_items
from tests import blimp

from .material import base

pytestmark = pytest.mark.filterwarnings("ignore")  # Trainer warns of its own plans

QUICK = Recipe(epochs=40, learning_rate=3e-3, batch_size=16, max_length=32)


def test_the_loss_is_the_cross_entropy_of_the_two_logits():
    logits = torch.randn(3, 5, 7)
    labels = torch.tensor([[1, 4, 2], [0, 6, 0], [4, 3, 5]])
    expected = [
        -math.log(math.exp(logits[i, p, t]) / (math.exp(logits[i, p, t]) + math.exp(logits[i, p, f])))
        for i, (p, t, f) in enumerate(labels.tolist())
    ]
    assert preference_loss(logits, labels).item() == pytest.approx(sum(expected) / 3, rel=1e-5)


def test_learns_and_writes_a_normal_folder(tmp_path):
    data, source, out = blimp.write(tmp_path / "data"), base(tmp_path), tmp_path / "out"
    figures = finetune(source, out, data_dir=data, recipe=QUICK)
    assert figures["accuracy"] > 0.9
    card = (out / "README.md").read_text()
    assert "--task blimp" in card
    assert f"{figures['accuracy']:.4f}" in card
    assert str(tmp_path) not in card
    assert not (out / "checkpoints").exists()
    AutoModelForMaskedLM.from_pretrained(out)


def test_causal_models_learn_what_stands_before_the_target(tmp_path):
    data, source, out = blimp.write(tmp_path / "data"), base(tmp_path, "gpt2", "CausalLM"), tmp_path / "out"
    finetune(source, out, data_dir=data, recipe=QUICK)
    model = Explainer.from_pretrained(out)._model
    items, _ = load_items("train", model.encoder, "causal-lm", evidence=False, data_dir=data)
    assert accuracy(model, items)["rpsv"][-1] > 0.9
