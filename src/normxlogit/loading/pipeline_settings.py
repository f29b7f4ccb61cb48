"""The settings of a transformers pipeline, which are respected or refused by name."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from ..errors import InputError, UnsupportedModelError
from ..extending import registered
from ..tasks import Task
from ..tasks.classification import Problem, configured_labels

PROBLEMS: dict[str, Problem] = {"sigmoid": "multi-label", "softmax": "single-label"}
"""Problem types by the function that turns outputs into probabilities; "none" keeps the logits."""

GENERATING_TASKS = ("text-generation", "image-text-to-text", "any-to-any")
"""Pipelines whose `max_length` counts prompt and answer."""

ONE_OUTPUT_TASKS = ("text-classification", "image-classification")
"""Pipelines that return a sigmoid probability if a model has one output."""

OTHER_QUESTIONS = ("decision", "document-question-answering", "table-question-answering", "zero-shot-classification")
"""Pipelines that ask a model something other than its text: prompts of their own, places of words, tables, labels.

Those that an extension reads (`Extension.pipelines`) are explained."""

IRRELEVANT = {
    "_legacy", "aggregation_strategy", "candidate_labels", "clean_up_tokenization_spaces", "delimiter",
    "hypothesis_template", "ignore_labels", "multi_label", "padding", "return_language", "return_tensors",
    "return_timestamps", "return_type", "skip_special_tokens", "timeout", "top_k",
}  # fmt: skip
"""Settings that only affect the format of the output, or are read elsewhere."""


CALLER_NAMES = {"target_ids": "targets", "tokenizer_params": "stride"}
"""Public names of settings that a pipeline stores under other names."""


@dataclass(frozen=True)
class PipelineSettings:
    """Settings of a pipeline; `question` makes the task that an extension's pipeline asks of the model's."""

    question: Callable[[Any], Task] | None = None
    problem: Problem | None = None
    add_special_tokens: bool = True
    max_length: int | None = None
    prefix: str = ""
    generation: Mapping[str, Any] = field(default_factory=dict)
    chat: Mapping[str, Any] = field(default_factory=dict)
    ignored: Collection[int] | None = None  # the indices of labels that a pipeline of tags leaves out


def pipeline_settings(pipeline: Any, labels: Sequence[str] | None) -> PipelineSettings:
    """Return the settings of a pipeline for which the caller gave labels; default settings for any other model."""
    groups = [getattr(pipeline, f"_{kind}_params", None) for kind in ("preprocess", "forward", "postprocess")]
    if not all(isinstance(group, Mapping) for group in groups):
        return PipelineSettings(problem=_cross_encoder_problem(pipeline))
    task = getattr(pipeline, "task", None)
    reader = registered("pipelines").get(str(task))
    if reader is None and task in OTHER_QUESTIONS:
        raise UnsupportedModelError(
            f"a pipeline for {task} asks its model more than a text, which is not explained; Explainer(pipeline.model, "
            "pipeline.tokenizer) explains the model's answers to texts"
        )
    preprocess, forward_settings, postprocess = (dict[str, Any](group or {}) for group in groups)
    generation = getattr(pipeline, "_generate_kwargs", {}) | forward_settings
    generation |= generation.pop("generate_kwargs", {})
    for name in ("prefix_length", "tokenizer", "return_language"):
        generation.pop(name, None)  # derived from the other settings
    if not getattr(pipeline.model, "generation_config", None):
        generation = {}
    of_tokenizer = preprocess.pop("tokenizer_kwargs", {}) | preprocess.pop("tokenizer_encode_kwargs", {})
    settings = preprocess | of_tokenizer | postprocess
    function = settings.pop("function_to_apply", None) or _default_function(pipeline)
    truncation, max_length = settings.pop("truncation", None), settings.pop("max_length", None)
    add_special_tokens = settings.pop("add_special_tokens", None)
    chat = {name: settings.pop(name) for name in ("tools", "documents") if name in settings}
    if task in GENERATING_TASKS:
        if truncation and max_length is not None:
            settings["truncation"] = truncation
        max_length = None  # of prompt and answer, which is a setting of generate
    elif truncation not in (None, True, False, "longest_first", "do_not_truncate"):
        settings["truncation"] = truncation
    prefix = settings.pop("prefix", None) or ""
    refused = [
        CALLER_NAMES.get(name, name)
        for name, value in settings.items()
        if not (value is None or value is False or name in IRRELEVANT or name in forward_settings)
    ]
    if refused:
        raise InputError(
            f"the pipeline was made with {', '.join(f'{name}=' for name in refused)}, with which it answers otherwise "
            "than is explained; make it without, or pass Explainer(pipeline.model, pipeline.tokenizer)"
        )
    return PipelineSettings(
        None if reader is None else reader(pipeline, labels),
        PROBLEMS.get(str(getattr(function, "value", function)).casefold()),
        add_special_tokens is not False,
        None if truncation in (False, "do_not_truncate") else max_length,
        prefix,
        generation,
        chat,
    )


def _default_function(pipeline: Any) -> str | None:
    """Return the default function that turns a single output, as of a reranker, into a probability."""
    config = pipeline.model.config
    is_single = getattr(pipeline, "task", None) in ONE_OUTPUT_TASKS and getattr(config, "num_labels", None) == 1
    return "sigmoid" if is_single and config.problem_type != "regression" else None


def _cross_encoder_problem(model: Any) -> Problem | None:
    """Return the problem type of a `CrossEncoder` that returns probabilities; None for anything else."""
    activation = getattr(model, "activation_fn", None) or getattr(model, "default_activation_function", None)
    return "multi-label" if callable(getattr(model, "rank", None)) and isinstance(activation, nn.Sigmoid) else None


def ignored_labels(pipeline: Any) -> list[int] | None:
    """Return the indices of labels that a pipeline of tags leaves out of its answers; None where it was not told."""
    settings = getattr(pipeline, "_postprocess_params", None)
    if not isinstance(settings, Mapping) or settings.get("ignore_labels") is None:
        return None
    ignored = set(settings["ignore_labels"])
    strategy = settings.get("aggregation_strategy")
    of_tokens = getattr(strategy, "value", strategy) in (None, "none")
    labels = configured_labels(pipeline.model.config)
    names = labels if of_tokens else [re.sub("^[BI]-", "", label) for label in labels]  # of groups of tokens
    return [index for index, name in enumerate(names) if name in ignored]
