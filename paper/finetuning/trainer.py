"""Settings, resumable training and the written folder, shared by all fine-tuning runs."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from normxlogit.errors import InputError
from normxlogit.loading.load import AUTO, device_named

__all__ = ["Card", "Recipe", "finish", "run", "training_arguments", "unpacked"]

CHECKPOINTS = "checkpoints"


@dataclass(frozen=True)
class Recipe:
    """Settings of a fine-tuning run.

    Attributes:
        epochs: Passes over the training data.
        learning_rate: Peak of a linear schedule; None means 3e-5, and 2e-4 with LoRA.
        batch_size: Texts in a step.
        warmup: Share of the steps in which the rate rises.
        max_length: Tokens read of each text.
        lora_rank: Train LoRA adapters of this rank instead of all weights, and merge them in the end; 0 for all
            weights. The paper uses rank 4 for Llama 2.
        patience: Stop when the validation figure has not improved for so many epochs.
        bf16: Compute in bfloat16.
        seed: Of data order, dropout and new weights.
        device: Kind of device to train on.
    """

    epochs: float = 3
    learning_rate: float | None = None
    batch_size: int = 32
    warmup: float = 0.1
    max_length: int = 128
    lora_rank: int = 0
    patience: int = 2
    bf16: bool = False
    seed: int = 0
    device: str = AUTO

    @property
    def rate(self) -> float:
        """The learning rate in force."""
        return self.learning_rate or (2e-4 if self.lora_rank else 3e-5)


def training_arguments(recipe: Recipe, folder: Path, **changes: Any) -> Any:
    """Return Trainer's arguments for a recipe; checkpoints go below `folder`.

    Args:
        recipe: Settings.
        folder: The folder that the model will be written to.
        **changes: Further arguments.

    Raises:
        InputError: If the machine has no such device, or one of several is named.
    """
    from transformers import TrainingArguments

    place = device_named(recipe.device)
    if place.index:
        raise InputError(
            f"training runs on the devices that it sees: name {place.type!r}, and choose them by CUDA_VISIBLE_DEVICES"
        )
    return TrainingArguments(
        output_dir=str(folder / CHECKPOINTS),
        num_train_epochs=recipe.epochs,
        learning_rate=recipe.rate,
        per_device_train_batch_size=recipe.batch_size,
        per_device_eval_batch_size=recipe.batch_size,
        warmup_steps=recipe.warmup,
        lr_scheduler_type="linear",
        weight_decay=0.01,
        save_total_limit=2,
        bf16=recipe.bf16,
        use_cpu=place.type == "cpu",
        seed=recipe.seed,
        report_to="none",
        disable_tqdm=False,
        logging_steps=50,
        **changes,
    )


def unpacked(network: Any) -> None:
    """Remove the quantisation settings that a GGUF file leaves behind: its weights were unpacked and can be trained."""
    quantizer = getattr(network, "hf_quantizer", None)
    if quantizer is not None:
        quantizer.remove_quantization_config(network)


def run(trainer: Any, *, resume: bool) -> dict[str, float]:
    """Train, from the last checkpoint of a run that was stopped if there is one.

    Returns:
        The figures on the evaluation data, by the names that the trainer's metrics give them.
    """
    from transformers.trainer_utils import get_last_checkpoint

    checkpoints = Path(trainer.args.output_dir)
    last = get_last_checkpoint(str(checkpoints)) if resume and checkpoints.is_dir() else None
    trainer.train(resume_from_checkpoint=last)
    return {name.removeprefix("eval_"): value for name, value in trainer.evaluate().items()}


@dataclass(frozen=True)
class Card:
    """Contents of a model card.

    Attributes:
        task: The command line's name of the task.
        model: What was fine-tuned.
        pipeline: The hub's name of what the model does.
        recipe: Settings.
        figures: Validation figures.
        train: Rows trained on.
        validation: Rows of the figures.
    """

    task: str
    model: str
    pipeline: str
    recipe: Recipe
    figures: Mapping[str, float]
    train: int
    validation: int

    def text(self) -> str:
        """Return the card in Markdown."""
        return CARD.format(
            model=Path(self.model).name if Path(self.model).exists() else self.model,
            pipeline=self.pipeline,
            task=self.task,
            figures=", ".join(f"{name} {value:.4f}" for name, value in self.figures.items()).capitalize(),
            train=self.train,
            validation=self.validation,
            recipe=json.dumps(asdict(self.recipe) | {"learning_rate": self.recipe.rate}, indent=1),
        )


CARD = """---
library_name: transformers
pipeline_tag: {pipeline}
base_model: {model}
---
# {model} fine-tuned on {task}

{figures} on {validation:,} validation rows, trained on {train:,} rows.

Command: `python -m paper finetune --task {task} --model {model}` with

```json
{recipe}
```
"""


def finish(folder: Path, model: Any, tokenizer: Any, card: Card) -> None:
    """Write the model, its tokenizer and its card, and remove the checkpoints."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "README.md").write_text(card.text(), encoding="utf-8")
    shutil.rmtree(folder / CHECKPOINTS)
