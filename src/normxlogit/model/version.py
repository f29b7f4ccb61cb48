"""Read the caller's model as it is at one moment: its copies, its task and its encoder."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel

from ..copies.answer_form import AnswerForm, adapt_forward, answer_form, answer_keys
from ..copies.clone import unwrapped
from ..copies.forward_arguments import IDS, ForwardSettings, arguments_of
from ..copies.module_io import TensorInputs
from ..copies.pool import private_clone
from ..errors import NormXLogitError, UnsupportedModelError
from ..inputs.encoder import Encoder
from ..loading.pipeline_settings import PipelineSettings
from ..tasks import Task, TaskName, as_task_model, choose_task, declared_tasks, task_of
from ..tasks.base import check_answer
from .input_limits import position_limit, vocabulary_limit
from .model_copy import ModelCopy
from .model_errors import named_errors
from .model_inputs import input_names, padding_id

FORMS_OF_TRANSFORMERS = ((("logits",), None), (("start_logits", "end_logits"), None))
"""How the models of transformers return their logits: the names of the fields, and None for no normaliser."""


def read_model(
    model: nn.Module,
    declared: TaskName | None,
    labels: Sequence[str] | None,
    reader: Any,
    tokenizer: Any,
    pipeline: PipelineSettings,
    forward: ForwardSettings,
    *,
    previous: nn.Module,
) -> ModelCopy:
    """Copy the caller's model as it is now, with its task and encoder.

    Args:
        model: The caller's model.
        declared: The task that the caller names; None for what the model's class says.
        labels: The caller's names of the outputs; None for the configuration's.
        reader: What reads inputs: a tokenizer or a processor.
        tokenizer: The tokenizer in it; None if it has none.
        pipeline: Settings of the pipeline that the model came with.
        forward: How a module of the caller's is called, and what it returns.
        previous: The model as a task model: the one that `TaskModel` began with, which has the caller's `pooling`, or
            later that of the copy before this one. A task that wraps models may use it again, and so keep the pooling.

    Raises:
        UnsupportedModelError: If the model has no head of a supported kind, or does not fit the task.
        InputError: If its forward does not take the arguments that the caller names.
    """
    caller_model = as_task_model(choose_task(model, declared), model, previous=previous)
    unwrapped_model = unwrapped(caller_model)
    task = task_of(
        unwrapped_model,
        declared,
        labels,
        reader,
        question=pipeline.question,
        problem=pipeline.problem,
        ignored_labels=pipeline.ignored,
    )
    copy = ModelCopy(caller_model, model)
    config = getattr(copy.module, "config", None)  # a plain module may have none, or one of another kind
    copy.config = config = config if isinstance(config, PretrainedConfig) else PretrainedConfig()
    copy.task = task = _adapt_copy(copy, task, unwrapped_model, declared, forward)
    limit, copy.decoder_limit = task.limits(unwrapped_model, position_limit)
    if pipeline.max_length is not None:
        limit = min(pipeline.max_length, limit or pipeline.max_length)  # that of the pipeline where the model has none
    copy.encoder = Encoder(
        tokenizer,
        config,
        model_limit=limit,
        vocabulary=vocabulary_limit(unwrapped_model),
        names=input_names(tokenizer, unwrapped_model, forward),
        add_special_tokens=pipeline.add_special_tokens,
    )
    # Trunks whose head takes the last position as it is must have their last token there.
    copy.pad_left = getattr(config, "summary_type", None) == "last" and hasattr(unwrapped_model, "sequence_summary")
    copy.pad_id, is_configured = padding_id(copy.module, config, tokenizer)
    if task.position.pooled and not (is_configured or copy.pad_left):
        copy.padding.refuted = True  # a head that looks for padding would take any other token for the text's
    return copy


def _adapt_copy(
    copy: ModelCopy, task: Task, unwrapped_model: nn.Module, declared: TaskName | None, settings: ForwardSettings
) -> Task:
    """Make a copy of the model callable with token ids, check that its head fits the task, and return the task.

    Plain modules, a user's own classes, whose forward may end in a softmax, and those with another task are tried with
    short inputs, to learn how they answer.

    Args:
        copy: The copy, whose form of the answer and notes are set.
        task: The task.
        unwrapped_model: The caller's model.
        declared: The task that the caller names; None for none.
        settings: How the caller says that the model is called, and what it returns.

    Raises:
        UnsupportedModelError: If its answer does not fit the task.
    """
    module = copy.module
    name = type(unwrapped_model).__name__
    is_plain = not isinstance(module, PreTrainedModel)
    copy.is_adapted |= task.adapt(module)
    is_other_task = declared not in (None, *declared_tasks(unwrapped_model))
    must_be_read = is_plain or settings.describes_forward
    needs_adapting = any((must_be_read, settings.extra_inputs))
    if not any((needs_adapting, is_other_task, _is_own_classifier(unwrapped_model, task))):
        return task
    probes = task.probes(module)
    main_input = next(iter(probes[0]))
    try:
        form, logits = _form_of_answer(private_clone(module), task, probes, settings)
    except NormXLogitError:
        if must_be_read:  # nothing else says how it answers
            raise
        return task  # the first text shows what is wrong
    needs_adapting |= (form.keys, form.normaliser) not in FORMS_OF_TRANSFORMERS
    if needs_adapting:  # then the copies take token ids, and return logits
        # A set, as the last two are one model unless the caller's has an adapter around it.
        for model in {copy.module, copy.unmodified, unwrapped(copy.wrapped)}:
            adapt_forward(model, form, arguments_of(model, settings, main_input))
    copy.form, copy.notes = form, form.note
    answer = None
    if is_plain:  # no configuration says how many outputs it has
        answer = logits
        copy.outputs = logits.shape[-1]
        copy.main_input = main_input
    task.outputs = task.outputs.of_answer(form, answer, name)
    if is_plain or is_other_task:  # the class of another model says that its head is for the task
        check_answer(task, logits, name)
    return task


def _is_own_classifier(model: nn.Module, task: Task) -> bool:
    """Return whether a model that classifies is of a class that its owner wrote."""
    if not task.models.plain or task.outputs.vocabulary:
        return False
    return not type(model).__module__.startswith(("transformers.", "normxlogit."))


def _form_of_answer(
    module: nn.Module, task: Task, probes: Sequence[TensorInputs], settings: ForwardSettings
) -> tuple[AnswerForm, Tensor]:
    """Return what a module returns for a few short inputs, and the logits for the first, (1, C) or (1, 3, C)."""
    run_probe = partial(_run_probe, module, [{**probe, **settings.extra_inputs} for probe in probes], settings)
    keys = answer_keys(
        run_probe(0),
        task.outputs.field if settings.output_field is None else settings.output_field,
        type(module).__name__,
        extractive=task.position.token_per_output,
        fits=partial(_fits_task, task),
    )
    form = answer_form(run_probe, keys, settings.outputs, len(probes))
    _, logits = form.call(lambda: run_probe(0))
    return form, logits


def _run_probe(module: nn.Module, probes: Sequence[TensorInputs], settings: ForwardSettings, index: int) -> Any:
    """Return what a module returns for one of several short inputs, that of an index."""
    device = next((parameter.device for parameter in module.parameters()), None)  # with None, `to` moves nothing
    inputs = {name: value.to(device) for name, value in probes[index].items()}
    main_input = next(iter(inputs))
    arguments = arguments_of(module, settings, main_input)
    name = "token ids" if main_input == IDS else main_input
    failure = f"{type(module).__name__} cannot read {name} of shape {tuple(inputs[main_input].shape)}"
    with torch.inference_mode(), named_errors(failure, UnsupportedModelError):
        return module(**arguments(inputs))


def _fits_task(task: Task, answer: Tensor) -> bool:
    """Return whether a tensor that a module returns can be the answer of a task."""
    try:  # without the model's name, as nobody sees the error
        check_answer(task, answer, "", task.outputs.of_answer(AnswerForm(), answer, ""))
    except NormXLogitError:
        return False
    return True
