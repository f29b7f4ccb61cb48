"""The version of a model at one moment: its copies, its task and its encoder."""

import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import nn
from transformers import PretrainedConfig, PreTrainedModel

from ..copies.clone import unwrapped
from ..copies.plain_module import as_task_model
from ..inputs.encoder import Encoder
from ..loading.pipeline_settings import PipelineSettings
from ..parts.headpiece import answer_of
from ..tasks import Task, TaskName, choose_task, declared_tasks, task_of
from .input_limits import input_names, padding_id, position_limit, vocabulary_limit
from .model_copy import ModelCopy


class ModelVersion(NamedTuple):
    """The copies, task and encoder of the caller's model at one moment; a call keeps the version it began with.

    Attributes:
        caller_model: The model as a task model: an embedding model's trunk with its pooling, other models unchanged.
        copy: The copies of it.
        config: Its configuration; an empty one of a model without.
        task: What it is for, with everything that differs by it, and what makes encodings of texts.
        pad_left: Whether padding stands before a text.
        pad_id: The token id for padding.
    """

    caller_model: nn.Module
    copy: ModelCopy
    config: PretrainedConfig
    task: Task
    pad_left: bool
    pad_id: int


class ThreadVersion(threading.local):
    """The version that the current thread's call began with; None before the first call.

    Of each thread its own: another thread may see that the model changed, and read it anew, in the middle of this one's
    call.
    """

    version: ModelVersion | None = None


def read_version(
    model: nn.Module,
    declared: TaskName | None,
    labels: Sequence[str] | None,
    reader: Any,
    tokenizer: Any,
    pipeline: PipelineSettings,
    *,
    previous: nn.Module,
) -> ModelVersion:
    """Copy the caller's model as it is now, and create the task and encoder for it.

    Args:
        model: The caller's model.
        declared: The task that the caller named.
        labels: The labels that the caller named.
        reader: The tokenizer or processor of the model.
        tokenizer: The tokenizer of `reader`.
        pipeline: The settings of the pipeline that holds the model.
        previous: The task model of the version before.

    Raises:
        UnsupportedModelError: If the model's answer is not one of the task.
    """
    caller_model = choose_task(model, declared).as_task_model(model, previous=previous)
    unwrapped_model = unwrapped(caller_model)
    task = task_of(unwrapped_model, declared, labels, reader, pipeline.hypotheses, pipeline.problem)
    copy = ModelCopy(caller_model, model)
    config = getattr(copy.module, "config", None)
    config = config if isinstance(config, PretrainedConfig) else PretrainedConfig()
    task = _adapt_copy(copy, task, unwrapped_model, declared)
    limit = task.limit(unwrapped_model, position_limit(None, unwrapped_model))
    if pipeline.max_length is not None:
        limit = min(pipeline.max_length, limit or pipeline.max_length)
    task.encoder = Encoder(
        tokenizer,
        config,
        limit,
        vocabulary_limit(unwrapped_model),
        input_names(tokenizer, unwrapped_model),
        add_special_tokens=pipeline.add_special_tokens,
        virtual_ids=copy.virtual_tokens.ids,
        prefix=copy.virtual_tokens.prefix,
    )
    # Trunks whose head takes the last position as it is must have their last token there.
    pad_left = getattr(config, "summary_type", None) == "last" and hasattr(unwrapped_model, "sequence_summary")
    pad_id, is_configured = padding_id(copy.module, config, tokenizer) if task.reads_tokens else (0, True)
    if not (is_configured or task.per_token or pad_left):
        copy.padding.refuted = True  # a head that looks for padding would take any other token for the text's
    return ModelVersion(caller_model, copy, config, task, pad_left, pad_id)


def _adapt_copy(copy: ModelCopy, task: Task, unwrapped_model: nn.Module, declared: TaskName | None) -> Task:
    """Make a copy of the model callable with token ids, check that its head fits the task, and return the task.

    A module that is not of transformers is called once, to count its outputs. So is a user's subclass of a known model
    that is declared to have another task than that model.

    Raises:
        UnsupportedModelError: If the model's answer is not one of the task.
    """
    name, module = type(unwrapped_model).__name__, copy.module
    device = next((parameter.device for parameter in unwrapped_model.parameters()), None)
    ids = torch.tensor([[0, 1, 1]], device=device)  # (1, 3)
    if not isinstance(module, PreTrainedModel):
        logits = as_task_model(module, ids)  # (1, C) or (1, 3, C)
        copy.outputs = logits.shape[-1]
        task = task.sized_by_answer(logits, name)
        task.check_answer(logits, name)
        return task
    copy.is_adapted |= task.adapt(module)
    if declared is not None and declared not in declared_tasks(unwrapped_model):
        with torch.inference_mode():
            answer = answer_of(copy.run({"input_ids": ids, "attention_mask": torch.ones_like(ids)}).output)
        if answer is not None:
            task.check_answer(answer, name)
    return task
