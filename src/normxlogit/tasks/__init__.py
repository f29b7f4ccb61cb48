"""Tasks, one file each: everything that differs by task."""

from collections.abc import Callable, Collection, Sequence
from functools import cache
from typing import Any

from torch import nn
from transformers import PreTrainedModel

from ..copies.clone import unwrapped
from ..errors import InputError, UnsupportedModelError
from ..extending import AddedTask, import_reference, references
from .base import Task, TaskName
from .classification import Classification
from .language import CausalLM, MaskedLM
from .question_answering import QuestionAnswering
from .seq2seq import Seq2Seq
from .tagging import TokenClassification
from .task_outputs import Problem

__all__ = ["Task", "TaskName"]


@cache
def all_tasks() -> dict[TaskName, AddedTask]:
    """Return all tasks by name, those of extensions first: the first one counts where a class of models has several.

    Raises:
        ExtensionError: If an extension takes the name of another task.
    """
    classes = (Classification, MaskedLM, CausalLM, TokenClassification, QuestionAnswering, Seq2Seq)
    core = {task.name: AddedTask(task.name, f"{task.__module__}:{task.__name__}", task.models) for task in classes}
    added = references("tasks", core=frozenset(core))
    return {**added, **core}


def task_class(name: TaskName) -> type[Task]:
    """Return the class of a task, which is imported now."""
    return all_tasks()[name].task_class


def choose_task(model: nn.Module, task: TaskName | None = None) -> type[Task]:
    """Return the task class of a model: the one that the caller names, or the one that the model's class declares.

    Args:
        model: The caller's model.
        task: The task that the caller names; None for none.

    Raises:
        InputError: If there is no such task, or the model's class is for another one.
        UnsupportedModelError: If the caller names none, and the model's class declares none.
    """
    if task is not None and task not in all_tasks():
        raise InputError(f"task must be one of {', '.join(all_tasks())}, not {task!r}")
    claiming = _claiming_task(model)
    if claiming is not None and task in (None, claiming.name):
        return claiming
    if task is not None and all_tasks()[task].models.wrapper:  # its wrapper makes an answer of any model's states
        return task_class(task)
    unwrapped_model = unwrapped(model)
    if isinstance(unwrapped_model, PreTrainedModel):
        return task_class(_task_of_pretrained(unwrapped_model, task))
    return task_class(_task_of_plain(unwrapped_model, task))


def _task_of_plain(model: nn.Module, task: TaskName | None) -> TaskName:
    """Return the caller's task of a module that is not of transformers, after checking that it is one of theirs."""
    plain_tasks = [name for name, plain_task in all_tasks().items() if plain_task.models.plain]
    if task is None or task not in plain_tasks:
        raise UnsupportedModelError(
            f"{type(model).__name__} is not of transformers, so what it is for must be said: task= one of "
            f"{', '.join(plain_tasks)}"
        )
    return task


def _task_of_pretrained(model: PreTrainedModel, task: TaskName | None) -> TaskName:
    """Return the caller's task of a model of transformers, or the first that its class declares."""
    name = type(model).__name__
    declared = declared_tasks(model)
    if task is None:
        if not declared:
            raise UnsupportedModelError(f"{name} {head_error(name)}")
        return declared[0]
    # A subclass outside transformers may do another task; its outputs are checked when it runs.
    if declared and task not in declared and type(model).__module__.startswith("transformers."):
        raise InputError(f"{name} is a model for {' and '.join(declared)}, not for {task}: leave out task=")
    return task


def task_of(
    model: nn.Module,
    task: TaskName | None = None,
    labels: Sequence[str] | None = None,
    tokenizer: Any = None,
    question: Callable[[Any], Task] | None = None,
    problem: Problem | None = None,
    ignored_labels: Collection[int] | None = None,
) -> Task:
    """Return the task of a model with the names of its outputs.

    Args:
        model: The caller's model, as a task model.
        task: The task that the caller names; None for the one that the model's class declares.
        labels: Names of the outputs instead of the configuration's.
        tokenizer: What reads the inputs.
        question: Makes the task that a pipeline of an extension asks, of the model's own; None for the model's own.
        problem: Which problem a pipeline says that the model solves; None for what its configuration says.
        ignored_labels: Indices of labels that a pipeline leaves out; None for what the task leaves out.
    """
    names = labels if question is None else None  # with a question they are its labels, not those of the outputs
    model_task = choose_task(model, task)(model, tokenizer, names)
    if problem is not None:
        model_task.outputs = model_task.outputs.of_problem(problem)
    if ignored_labels is not None:
        model_task.position = model_task.position.ignoring(ignored_labels)
    return model_task if question is None else question(model_task)


def as_task_model(task: type[Task], model: nn.Module, pooling: Any = None, previous: Any = None) -> nn.Module:
    """Return the caller's model as a task model: itself, unless the task wraps models without a head.

    Args:
        task: The class of the task.
        model: The caller's model.
        pooling: How an embedding model pools, if the caller says it.
        previous: What was made of the model when it was read last.

    Raises:
        InputError: If `pooling` is given for a task that does not pool.
    """
    if task.models.wrapper:
        return import_reference(task.models.wrapper).task_model(model, pooling, previous)
    if pooling is not None:
        raise InputError("pooling= is for embedding models; give task='embedding' with it")
    return model


def is_bare(model: nn.Module) -> bool:
    """Return whether neither the class of a model nor a base class has a task head."""
    return isinstance(model, PreTrainedModel) and not any(task_name(cls.__name__) for cls in type(model).__mro__)


def _claiming_task(model: nn.Module) -> type[Task] | None:
    """Return the task that a module names itself, or the first that claims it as one of another library, or None."""
    # Classes of transformers have no `task_class`; this package's own models, such as two towers, do.
    if isinstance(model, PreTrainedModel):
        return getattr(model, "task_class", None)
    return next((task_class(name) for name, task in all_tasks().items() if task.models.claims(model)), None)


def declared_tasks(model: nn.Module) -> tuple[TaskName, ...]:
    """Return the tasks that a model's class has; for a user's subclass, those of the transformers class it extends."""
    claiming = _claiming_task(model)
    if claiming is not None:
        return (claiming.name,)
    config = getattr(model, "config", None)
    for base_class in type(model).__mro__:
        tasks = _tasks_of(base_class.__name__, config)
        if tasks:
            return tasks
    return ()


def task_name(class_name: str, config: Any = None) -> TaskName | None:
    """Return the task of a model class, None if it has none of the supported heads.

    Args:
        class_name: The name of the class.
        config: The model's configuration; None if it is not known.
    """
    return next(iter(_tasks_of(class_name, config)), None)


def _tasks_of(class_name: str, config: Any = None) -> tuple[TaskName, ...]:
    """Return the tasks of a model class by its name, in order of preference: that of BART has two.

    transformers' mappings of classes say it; of a class that is in none, such as a user's, the ending of its name.

    Args:
        class_name: The name of the class.
        config: The model's configuration; None if it is not known.
    """
    lacks_encoder = not getattr(config, "is_encoder_decoder", True)  # False where it is not known
    for by_ending in (False, True):  # the endings only where the mappings have not said it
        names = [
            name
            for name, task in all_tasks().items()
            if task.models.have(class_name, lacks_encoder=lacks_encoder, by_ending=by_ending)
        ]
        if names:
            return tuple(names)
    return ("causal-lm",) if class_name.endswith("LMHeadModel") else ()  # as GPT-2's is called


def wrappers() -> list[tuple[TaskName, Any]]:
    """Return the tasks of models without a head, whose answer is made of their states, each with how it wraps them."""
    return [(name, import_reference(task.models.wrapper)) for name, task in all_tasks().items() if task.models.wrapper]


def wrapping_task() -> TaskName | None:
    """Return the first task of models without a head; None if no extension has one."""
    return next((name for name, task in all_tasks().items() if task.models.wrapper), None)


def head_error(class_name: str) -> str:
    """Return why a class without a supported head cannot be explained, and what to load instead."""
    if class_name.endswith("Model"):  # as transformers calls models without a head
        stem = class_name.removesuffix("Model")
        wrapping = wrapping_task()
        embeds = "" if wrapping is None else f"; a model that embeds texts needs task={wrapping!r}"
        return (
            "is a bare encoder: it has no head whose answer could be explained. Load a fine-tuned checkpoint with one, "
            f"such as {stem}ForSequenceClassification{embeds}"
        )
    supported = ", ".join(task.name for task in all_tasks().values() if task.models.mapping)
    return f"has no head of a supported kind ({supported})"
