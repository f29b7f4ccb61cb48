"""A run that is stopped looks like no model, goes on from its checkpoint, and ends as one that was not stopped."""

from functools import partial

import pytest
import torch
import transformers
from safetensors.torch import load_file

from paper.finetuning import classification, minimal_pairs
from paper.finetuning.trainer import Recipe
from tests import blimp

from .material import base, write_reviews

RECIPE = Recipe(epochs=2, learning_rate=3e-3, batch_size=8, max_length=32)


class Stopped(Exception):
    pass


class Stop(transformers.TrainerCallback):
    def on_save(self, args, state, control, **_):
        raise Stopped


@pytest.mark.filterwarnings("ignore")  # Trainer warns of its own plans
@pytest.mark.parametrize("task", ["sst2", "blimp"])
def test_a_stopped_run_goes_on(task, tmp_path, monkeypatch):
    source, out, whole = base(tmp_path), tmp_path / "out", tmp_path / "whole"
    if task == "sst2":
        data, start = write_reviews(tmp_path / "data"), partial(classification.finetune, task)
    else:
        data, start = blimp.write(tmp_path / "data"), minimal_pairs.finetune
    finetune = partial(start, source, data_dir=data, recipe=RECIPE)
    figures = finetune(whole)
    train, starts = transformers.Trainer.train, []

    def stopping(self, **options):
        self.add_callback(Stop())
        return train(self, **options)

    def watching(self, **options):
        starts.append(options["resume_from_checkpoint"])
        return train(self, **options)

    monkeypatch.setattr(transformers.Trainer, "train", stopping)
    with pytest.raises(Stopped):
        finetune(out)
    assert not (out / "config.json").exists()
    monkeypatch.setattr(transformers.Trainer, "train", watching)
    assert finetune(out) == figures
    assert "checkpoint-" in starts[0]
    here, there = (load_file(folder / "model.safetensors") for folder in (out, whole))
    assert all(torch.allclose(here[name], there[name], atol=1e-5) for name in here), "the same steps, in two runs"
