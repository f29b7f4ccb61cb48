"""Prepare a copy of a model to be called with token ids."""

import torch
from torch import nn
from transformers import PreTrainedModel

from ..copies.plain_module import as_task_model
from ..parts.headpiece import answer_of
from ..tasks import Task, TaskName, declared_tasks
from .model_copy import ModelCopy
from .proof_sample import reading


def adapt(copy: ModelCopy, task: Task, plain: nn.Module, declared: TaskName | None) -> Task:
    """Make a copy of the model callable with token ids, and check that its head fits the task.

    A module that is not of transformers is called once, to count its outputs. So is a user's subclass of a known model
    that is declared to have another task than that model.

    Raises:
        UnsupportedModelError: If the model's answer is not one of the task.
    """
    name, module = type(plain).__name__, copy.module
    ids = torch.tensor([[0, 1, 1]], device=next((p.device for p in plain.parameters()), None))  # (1, 3)
    if not isinstance(module, PreTrainedModel):
        logits = as_task_model(module, ids)  # (1, C) or (1, 3, C)
        copy.outputs = logits.shape[-1]
        task = task.completed(logits, name)
        task.check_answer(logits, name)
        return task
    copy.adapted |= task.adapt(module)
    if declared is not None and declared not in declared_tasks(plain):
        with reading(module, {"input_ids": ids}):
            answer = answer_of(copy.run({"input_ids": ids, "attention_mask": torch.ones_like(ids)}).output)
        if answer is not None:
            task.check_answer(answer, name)
    return task
