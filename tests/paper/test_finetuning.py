import json
import random
from functools import partial

import pytest
from transformers import AutoModelForMaskedLM, AutoModelForSequenceClassification, AutoTokenizer

from normxlogit import Explainer
from paper.finetuning import classification, minimal_pairs
from paper.finetuning.trainer import Recipe
from tests import blimp, tiny

pytestmark = pytest.mark.filterwarnings("ignore")  # Trainer and PEFT warn of their own plans


def write_reviews(folder):
    rng = random.Random(0)
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


PAIRS = Recipe(epochs=40, learning_rate=3e-3, batch_size=16, max_length=32)
TASKS = {
    "sst2": (write_reviews, partial(classification.finetune, "sst2"), AutoModelForSequenceClassification),
    "blimp": (blimp.write, minimal_pairs.finetune, AutoModelForMaskedLM),
}


@pytest.mark.parametrize("task", TASKS)
def test_learns_and_writes_a_normal_folder(task, tmp_path):
    write, finetune, auto = TASKS[task]
    recipe = PAIRS if task == "blimp" else Recipe(epochs=6, learning_rate=3e-3, batch_size=16)
    out = tmp_path / "out"
    figures = finetune(
        tiny.save(tmp_path / "bert", "bert", "MaskedLM", scale=1.0),
        out,
        data_dir=write(tmp_path / "data"),
        recipe=recipe,
    )
    assert figures["accuracy"] > 0.9
    card = (out / "README.md").read_text()
    assert f"--task {task}" in card
    assert f"{figures['accuracy']:.4f}" in card
    assert str(tmp_path) not in card
    assert not (out / "checkpoints").exists()
    model = auto.from_pretrained(out)
    if task == "sst2":
        assert model.config.id2label == {0: "negative", 1: "positive"}
        assert AutoTokenizer.from_pretrained(out).mask_token == "[MASK]"
        assert Explainer.from_pretrained(out)("the movie is good").prediction.label == "positive"
