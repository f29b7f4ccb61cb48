"""The module and tokenizer inside a pipeline or an object of sentence-transformers, known by their attributes."""

import copy
import inspect
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.models.auto.processing_auto import PROCESSOR_MAPPING

from ..errors import InputError, UnsupportedModelError
from ..inputs.label_names import label_names
from ..tasks import is_bare
from .pipeline_settings import ignored_labels, pipeline_settings

REPLICATING = (nn.DataParallel, nn.parallel.DistributedDataParallel, AveragedModel)
"""Modules whose forward pass is that of their `module`."""


def module_and_reader(model: Any, tokenizer: Any) -> tuple[nn.Module, Any]:
    """Return the module and its tokenizer or processor, None without any: the task says whether it needs one.

    Args:
        model: A module, a pipeline, a `Trainer`, or a model of sentence-transformers.
        tokenizer: The caller's; None for the one that belongs to the model.

    Raises:
        InputError: If there is no module.
        UnsupportedModelError: If the module is scripted.
    """
    if isinstance(model, REPLICATING):
        model = model.module
    inside = _model_in_cross_encoder(model)
    if inside is not None:
        model, own_tokenizer = inside
        tokenizer = tokenizer or own_tokenizer
    if isinstance(model, torch.jit.ScriptModule):
        raise UnsupportedModelError("a scripted module does not show its parts; pass the module that it was made of")
    module: Any = model
    if isinstance(model, nn.Module):
        tokenizer = tokenizer or getattr(model, "tokenizer", None)  # as a `SentenceTransformer` has it
    else:
        module = getattr(model, "model", None)  # of a pipeline or a `Trainer`
        tokenizer = tokenizer or _reader_of(model)
    if not isinstance(module, nn.Module):
        raise InputError(
            f"an Explainer takes a model or a pipeline, not {type(model).__name__}; "
            "Explainer.from_pretrained takes a name or folder"
        )
    return module, tokenizer


def wrapped_state(model: Any, tokenizer: Any, labels: Sequence[str] | None) -> dict[str, Any]:
    """Return the module, tokenizer, labels and pipeline settings of a model or pipeline, as arguments of `TaskModel`.

    Args:
        model: A module, a pipeline, a `Trainer`, or a model of sentence-transformers.
        tokenizer: The caller's; None for the one that belongs to the model.
        labels: Names of the labels; None for the model's.

    Raises:
        InputError: If there is no module, or a setting of the pipeline is not applied here.
        UnsupportedModelError: If the pipeline asks its model more than a text.
    """
    module, reader = module_and_reader(model, tokenizer)
    names = None if labels is None else label_names(labels)
    settings = replace(pipeline_settings(model, names), ignored=ignored_labels(model))
    return {"model": module, "tokenizer": reader, "labels": names, "pipeline": settings}


def _reader_of(pipeline: Any) -> Any:
    """Return the processor or tokenizer of a pipeline or a `Trainer`.

    A pipeline may hold the parts of a processor one by one: they are combined as the model's processor has them.
    """
    processor = getattr(pipeline, "processor", None) or getattr(pipeline, "processing_class", None)
    if processor is not None:
        return processor
    names = ("tokenizer", "image_processor", "feature_extractor")
    parts = {name: part for name in names if (part := getattr(pipeline, name, None)) is not None}
    config = getattr(getattr(pipeline, "model", None), "config", None)
    processor_class = cast(Any, PROCESSOR_MAPPING).get(type(config), None) if len(parts) > 1 else None
    if processor_class is None:
        return next(iter(parts.values()), None)  # the only part, or the first where no processor joins them
    parameters = inspect.signature(processor_class).parameters
    return processor_class(**{name: part for name, part in parts.items() if name in parameters})


def _model_in_cross_encoder(model: Any) -> tuple[nn.Module, Any] | None:
    """Return the task model and the tokenizer of a `CrossEncoder`, which is known by its `rank`; None for others.

    Raises:
        UnsupportedModelError: If it changes texts, or the task model's answers, by modules or prompts of its own.
    """
    # A model of transformers is the task model itself, whatever attributes its class has.
    if isinstance(model, PreTrainedModel) or not callable(getattr(model, "rank", None)):
        return None
    # sentence-transformers has had two names for it.
    task_model = getattr(model, "transformers_model", None) or getattr(model, "model", None)
    if not isinstance(task_model, nn.Module) or is_bare(task_model):
        return None
    if (isinstance(model, nn.Sequential) and len(model) > 1) or getattr(model, "default_prompt_name", None):
        raise UnsupportedModelError(
            f"this {type(model).__name__} has modules or prompts around its model of transformers, which would be left "
            "out; pass the model of transformers inside it, with its tokenizer, and texts as it reads them"
        )
    return task_model, with_length_limit(model, cast(Any, model).tokenizer)


def with_length_limit(model: Any, tokenizer: PreTrainedTokenizerBase) -> PreTrainedTokenizerBase:
    """Return the tokenizer, or a copy with a lower `model_max_length` if the model reads fewer tokens.

    Args:
        model: An object of sentence-transformers, whose versions have two names for its limit.
        tokenizer: The tokenizer in it.
    """
    longest = getattr(model, "max_seq_length", None) or getattr(model, "max_length", None)
    if not isinstance(longest, int) or longest >= tokenizer.model_max_length:
        return tokenizer
    # The tokenizer is the caller's, and stays as it is.
    limited = copy.copy(tokenizer)
    limited.model_max_length = longest
    return limited
