"""Fine-tuning a classifier or regression model with Trainer, all weights or LoRA."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from normxlogit.errors import DataError, InputError
from normxlogit.evaluation.datasets import Example, GlueTask, load_examples, task_named
from normxlogit.inputs.encoder import Encoder
from normxlogit.loading.load_errors import sentencepiece_remedy
from normxlogit.model.input_limits import position_limit

from .trainer import Card, Recipe, finish, run, training_arguments, unpacked

__all__ = ["finetune"]


def finetune(
    task: str,
    model: str | Path,
    output: str | Path,
    *,
    data_dir: str | Path | None = None,
    recipe: Recipe | None = None,
    limit: int | None = None,
    resume: bool = True,
    **options: Any,
) -> dict[str, float]:
    """Fine-tune a model on a GLUE task and write a normal Hugging Face folder with a card.

    Args:
        task: "sst2", "mnli", "qnli" or "stsb".
        model: Hub name or folder of a pretrained model.
        output: Folder to write; checkpoints live in it until the run is whole.
        data_dir: Folder with the task's files; the hub otherwise.
        recipe: Settings.
        limit: Train on the first rows only.
        resume: Go on from the last checkpoint of a run that was stopped.
        **options: Passed to `from_pretrained`, such as `gguf_file`.

    Returns:
        The validation figures: accuracy, or Pearson's correlation.

    Raises:
        DataError: If the data is not there or not of the task's form.
        InputError: If the model cannot be loaded with a head for the task.
    """
    from transformers import DataCollatorWithPadding, EarlyStoppingCallback, Trainer, set_seed

    recipe, kind, folder = recipe or Recipe(), task_named(task), Path(output)
    train = load_examples(task, split="train", data_dir=data_dir, limit=limit)
    validation = load_examples(task, data_dir=data_dir)
    _check_labels(kind, (*train, *validation))
    set_seed(recipe.seed)
    network, tokenizer = _load(model, kind, recipe, options)
    limit = Encoder(tokenizer, network.config, position_limit(network)).limit
    length = min(recipe.max_length, limit or recipe.max_length)
    metric = "accuracy" if kind.labels else "pearson"
    arguments = training_arguments(
        recipe,
        folder,
        eval_strategy="epoch",
        save_strategy="epoch",
        load_best_model_at_end=True,
        metric_for_best_model=metric,
        train_sampling_strategy="group_by_length",
    )
    trainer = Trainer(
        model=network,
        args=arguments,
        train_dataset=_tokenised(train, tokenizer, length),
        eval_dataset=_tokenised(validation, tokenizer, length),
        data_collator=DataCollatorWithPadding(tokenizer),
        compute_metrics=lambda outputs: _figures(metric, outputs.predictions, outputs.label_ids),
        callbacks=[EarlyStoppingCallback(recipe.patience)],
    )
    figures = {metric: run(trainer, resume=resume)[metric]}
    trained: Any = trainer.model
    if recipe.lora_rank:
        trained = trained.merge_and_unload()
    card = Card(task, str(model), "text-classification", recipe, figures, len(train), len(validation))
    finish(folder, trained, tokenizer, card)
    return figures


def _load(model: str | Path, task: GlueTask, recipe: Recipe, options: Mapping[str, Any]) -> tuple[Any, Any]:
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    head: dict[str, Any] = {"num_labels": 1, "problem_type": "regression"}
    if task.labels:
        names = dict(enumerate(task.labels))
        head = {"id2label": names, "label2id": {name: i for i, name in names.items()}}
    files = {key: options[key] for key in ("gguf_file", "revision") if key in options}
    try:
        tokenizer = AutoTokenizer.from_pretrained(model, **files)
        network = AutoModelForSequenceClassification.from_pretrained(model, dtype=torch.float32, **head, **options)
    except (ImportError, OSError, ValueError, RuntimeError) as error:
        reason = sentencepiece_remedy(error, model) or str(error).strip().partition("\n")[0]
        raise InputError(f"cannot load {model} with a head for {task.name}: {reason}") from None
    if "gguf_file" in options:
        unpacked(network)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    network.config.get_text_config().pad_token_id = tokenizer.pad_token_id
    network.config.pad_token_id = tokenizer.pad_token_id
    if recipe.lora_rank:
        from peft import LoraConfig, TaskType, get_peft_model

        rank = recipe.lora_rank
        network = get_peft_model(
            network, LoraConfig(task_type=TaskType.SEQ_CLS, r=rank, lora_alpha=4 * rank, target_modules="all-linear")
        )
    return network, tokenizer


def _tokenised(examples: Sequence[Example], tokenizer: Any, length: int) -> Any:
    from datasets import Dataset

    first = [e.text if isinstance(e.text, str) else e.text[0] for e in examples]
    second = [e.text[1] for e in examples if not isinstance(e.text, str)] or None
    inputs = tokenizer(first, second, truncation=True, max_length=length)
    return Dataset.from_dict({**inputs, "labels": [e.label for e in examples]})


def _figures(metric: str, outputs: Any, labels: Any) -> dict[str, float]:
    outputs = outputs[0] if isinstance(outputs, tuple) else outputs
    if metric == "accuracy":
        return {metric: float((outputs.argmax(-1) == labels).mean())}
    return {metric: float(np.corrcoef(outputs.reshape(-1), labels)[0, 1])}


def _check_labels(task: GlueTask, examples: Sequence[Example]) -> None:
    for place, example in enumerate(examples):
        if task.labels and example.label not in range(len(task.labels)):
            names = ", ".join(f"{i} {name}" for i, name in enumerate(task.labels))
            raise DataError(f"{task.name}, example {place}: label {example.label}; the task has {names}")
