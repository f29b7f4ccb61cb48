"""Whether a model's head can have the task that was given for it."""

import torch
from torch import nn
from transformers import PreTrainedTokenizerBase

from ..surgery.headpiece import answer_of
from .model_copy import ModelCopy
from .proof import reading
from .task_classes import TaskName, declared_tasks
from .tasks import Task, check_answer

__all__ = ["check_given_task"]


def check_given_task(
    copy: ModelCopy, model: nn.Module, task: Task, given: TaskName | None, tokenizer: PreTrainedTokenizerBase
) -> None:
    """Refuse a task that the head cannot have, where the model's class does not say what it is for.

    A module that is not of transformers has answered already; a user's subclass of a known model, whose task is
    another than that model's, is called on three tokens.

    Args:
        copy: The copies of the model.
        model: The caller's model.
        task: Its task.
        given: The task that the caller gave.
        tokenizer: Its tokenizer.

    Raises:
        UnsupportedModelError: If the model's answer is not one of that task.
    """
    logits: torch.Tensor | None = None
    if copy.outputs is not None:
        logits = torch.empty((1, 1, copy.outputs) if task.per_token else (1, copy.outputs))
    elif given is not None and given not in declared_tasks(model):
        ids = torch.tensor([[0, 1, 1]], device=next((p.device for p in model.parameters()), None))  # (1, 3)
        with reading(copy.module, {"input_ids": ids}):
            logits = answer_of(copy.run({"input_ids": ids, "attention_mask": torch.ones_like(ids)}).output)
    if logits is not None:
        check_answer(task, logits, type(model).__name__, len(tokenizer) if task.vocabulary else 0)
