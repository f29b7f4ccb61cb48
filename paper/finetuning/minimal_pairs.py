"""Fine-tuning a language model to prefer the target to the foil (NormXLogit, EMNLP 2025, experiment 2)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from normxlogit.errors import InputError
from normxlogit.inputs.batches import collate
from normxlogit.inputs.encoder import Encoder
from normxlogit.loading.load import load
from normxlogit.model.input_limits import position_limit
from normxlogit.tasks import choose_task

from ..minimal_pairs import Item
from ..sentence_pairs import load_items
from .trainer import Card, Recipe, finish, run, training_arguments, unpacked

__all__ = ["PAPER", "TASK", "finetune", "preference_loss"]

TASK = "blimp"
"""What the command line calls it."""

PAPER = Recipe(epochs=1, batch_size=64, learning_rate=3e-5, max_length=32)
"""The paper's settings."""


def finetune(
    model: str | Path,
    output: str | Path,
    *,
    data_dir: str | Path | None = None,
    recipe: Recipe = PAPER,
    limit: int | None = None,
    resume: bool = True,
    **options: Any,
) -> dict[str, float]:
    """Fine-tune a language model on one half of BLiMP's agreement paradigms; writes a normal folder with a card.

    The loss is the cross-entropy between the logits of target and foil where the model answers: at the mask, for
    causal models at the last token before the target.

    Args:
        model: Hub name or folder of a masked or causal language model.
        output: Folder to write; checkpoints live in it until the run is whole.
        data_dir: Folder with `PARADIGM.jsonl`; the hub otherwise.
        recipe: Settings.
        limit: Train on so many pairs of each paradigm only.
        resume: Go on from the last checkpoint of a run that was stopped.
        **options: Passed to `from_pretrained`, such as `gguf_file`.

    Returns:
        The accuracy on the other half: how often the target's logit is above the foil's.

    Raises:
        DataError: If the data is not there.
        InputError: If the model cannot be loaded, or LoRA is asked for.
        UnsupportedModelError: If the model is not a language model or has no mask.
    """
    from transformers import Trainer, set_seed

    if recipe.lora_rank:
        raise InputError("pairs of sentences train all weights; leave LoRA out")
    network, tokenizer = load(model, dtype=torch.float32, **options)
    if "gguf_file" in options:
        unpacked(network)
    encoder = Encoder(tokenizer, network.config, position_limit(network))
    task = choose_task(network).name
    settings: dict[str, Any] = {"evidence": False, "data_dir": data_dir, "max_length": recipe.max_length}
    train, _ = load_items("train", encoder, task, limit=limit, **settings)
    test, _ = load_items("test", encoder, task, **settings)
    set_seed(recipe.seed)
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0
    trainer = Trainer(
        model=network,
        args=training_arguments(
            recipe, Path(output), save_strategy="steps", save_steps=0.25, remove_unused_columns=False
        ),
        train_dataset=train,
        eval_dataset=test,
        data_collator=lambda items: _collated(items, pad),
        compute_loss_func=lambda outputs, labels, **_: preference_loss(outputs.logits, labels),
        preprocess_logits_for_metrics=_both,
        compute_metrics=_accuracy,
    )
    figures = {"accuracy": run(trainer, resume=resume)["accuracy"]}
    pipeline = "fill-mask" if task == "masked-lm" else "text-generation"
    finish(Path(output), network, tokenizer, Card(TASK, str(model), pipeline, recipe, figures, len(train), len(test)))
    return figures


def preference_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the mean cross-entropy of the choice between target and foil.

    Args:
        logits: The model's, (B, T, V).
        labels: Position of the answer, target and foil, (B, 3).
    """
    both = _both(logits, labels).float()  # (B, 2)
    return torch.nn.functional.cross_entropy(both, both.new_zeros(len(both), dtype=torch.long))


def _both(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the logits of target and foil, (B, 2)."""
    texts = torch.arange(len(labels), device=logits.device)  # (B,)
    return logits[texts, labels[:, 0]].gather(1, labels[:, 1:])


def _accuracy(outputs: Any) -> dict[str, float]:
    target, foil = outputs.predictions.T  # (N,) each
    return {"accuracy": float((target > foil).mean())}


def _collated(items: Sequence[Item], pad: int) -> dict[str, Tensor]:
    encodings = [item.encoding for item in items]
    batch = collate(encodings, list(range(len(items))), pad_id=pad, left=False, device=torch.device("cpu"))
    labels = torch.tensor([[item.position, item.target, item.foil] for item in items])  # (B, 3)
    return batch.inputs | {"labels": labels}
