"""The settings of a transformers pipeline, which are respected or refused by name."""

import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn
from transformers import PreTrainedTokenizerBase

from ..compat import generation_defaults
from ..errors import InputError, UnsupportedModelError
from ..extending import registered
from ..tasks import Task
from ..tasks.classification import configured_labels
from ..tasks.task_outputs import Problem
from .model_files import Options

PROBLEMS: dict[str, Problem] = {"sigmoid": "multi-label", "softmax": "single-label"}
"""Problem types by the function that turns outputs into probabilities; "none" keeps the logits."""

GENERATING_TASKS = ("text-generation", "image-text-to-text", "any-to-any")
"""Pipelines whose `max_length` counts prompt and answer."""

ONE_OUTPUT_TASKS = ("text-classification", "image-classification")
"""Pipelines that return a sigmoid probability if a model has one output."""

OTHER_QUESTIONS = (
    "decision", "document-question-answering", "image-to-text", "question-answering", "summarization",
    "table-question-answering", "text2text-generation", "translation", "visual-question-answering",
    "zero-shot-classification",
)  # fmt: skip
"""Pipelines that ask a model something other than its text: prompts of their own, places of words, tables, labels.

Those that an extension reads (`Extension.pipelines`) are explained. Some are there in older versions alone."""

IRRELEVANT = {
    "_legacy", "clean_up_tokenization_spaces", "delimiter", "ignore_labels", "return_language", "return_tensors",
    "return_timestamps", "return_type", "skip_special_tokens", "timeout", "top_k", "verbose",
}  # fmt: skip
"""Settings that only affect the format of the output, or are read elsewhere."""

OF_LABELS = {"candidate_labels", "hypothesis_template", "multi_label"}
"""Settings of the extensions that explain what other pipelines ask."""

TOKEN_BY_TOKEN = ("none", "simple")
"""Aggregation strategies that keep the label of each token; by the others the tokens of a word vote."""

TRUNCATING = (True, "longest_first")
"""Values of `truncation` that cut a text as it is cut here."""

CALLER_NAMES = {"target_ids": "targets", "tokenizer_params": "stride"}
"""Public names of settings that a pipeline stores under other names."""

LENGTHS = {"max_length": "max_new_tokens", "min_length": "min_new_tokens"}
"""Lengths of prompt and answer, each with that of the answer alone, which goes before."""

UNUSED_DEFAULTS = ("do_sample", "temperature", "top_k", "top_p", "_from_model_config", "transformers_version")
"""Defaults of pipelines that are not applied: sampling, which only a call asks for, and what is said of a file."""


Settings = Mapping[str, Any]
"""Settings of a pipeline or of `generate`, by name."""


@dataclass(frozen=True)
class GenerationOfPipeline:
    """What a pipeline passes to `generate`.

    Attributes:
        given: The settings that the pipeline was made with.
        defaults: Those of its kind, for what neither a call nor the model's `generation_config` says.
        samples: Whether it samples by default.
        prefix_length: The tokens of its prefix, which a length of prompt and answer does not count.
    """

    given: Settings = field(default_factory=dict)
    defaults: Settings = field(default_factory=dict)
    samples: bool = False
    prefix_length: int = 0

    def of_call(self, called: Settings, configured: Settings) -> Options:
        """Return the settings for a call: its own, those of the pipeline, the model's, the pipeline's defaults.

        What is named first goes before what is named later. The model's need not be returned: `generate` reads them.

        Args:
            called: The settings that the call gives.
            configured: What the model's `generation_config` sets.
        """
        # The configuration of a call replaces also what the pipeline was made with.
        has_own_config = called.get("generation_config") is not None
        settings = dict(called) if has_own_config else {**self.given, **called}
        of_config: Settings = getattr(settings.get("generation_config"), "to_diff_dict", dict)()
        in_effect = {**configured, **of_config, **settings}  # with what the model's and the call's configurations say
        if "max_length" in in_effect:
            in_effect.setdefault("max_new_tokens", None)  # the default of this one would go before `max_length`
        defaults = {name: value for name, value in self.defaults.items() if name not in in_effect}
        settings |= defaults
        in_effect |= defaults  # the lengths that a pipeline was made with may be among them
        # The pipeline's `max_length` does not count its prefix, which here is a part of the prompt.
        for length, of_answer in LENGTHS.items():
            if self.prefix_length and in_effect.get(length) is not None and in_effect.get(of_answer) is None:
                settings[length] = in_effect[length] + self.prefix_length
        return settings


@dataclass(frozen=True)
class PipelineSettings:
    """Settings of a pipeline.

    Attributes:
        question: Makes the task that an extension's pipeline asks of the model's own.
        problem: What the model's outputs are turned into, see `PROBLEMS`; None where the pipeline does not say.
        add_special_tokens: Whether the tokenizer adds special tokens.
        max_length: The most tokens of a text that is classified or tagged.
        longest_prompt: The most tokens of a prompt, which the pipeline truncates.
        prefix: The text that the pipeline puts before every prompt.
        generation: What it passes to `generate`.
        chat: What the chat template is given.
        ignored: The indices of labels that a pipeline of tags leaves out.
    """

    question: Callable[[Any], Task] | None = None
    problem: Problem | None = None
    add_special_tokens: bool = True
    max_length: int | None = None
    longest_prompt: int | None = None
    prefix: str = ""
    generation: GenerationOfPipeline = field(default_factory=GenerationOfPipeline)
    chat: Settings = field(default_factory=dict)
    ignored: Collection[int] | None = None


def pipeline_settings(pipeline: Any, labels: Sequence[str] | None) -> PipelineSettings:
    """Return the settings of a pipeline for which the caller gave labels; default settings for any other model.

    Args:
        pipeline: A pipeline of transformers, or any other model.
        labels: The labels that the caller gave; None for none.

    Raises:
        UnsupportedModelError: If the pipeline asks its model more than a text, or another model has a say.
        InputError: If it was made with a setting that is not applied here.
    """
    if not hasattr(pipeline, "_sanitize_parameters"):
        return PipelineSettings(problem=_cross_encoder_problem(pipeline))
    reader = _reader_of_question(pipeline)
    # The arguments of a pipeline's three steps: those that it was made with, then what every call sets anew.
    preprocess, forward, postprocess = pipeline._sanitize_parameters()
    preprocess = {**pipeline._preprocess_params, **preprocess}
    forward = {**pipeline._forward_params, **forward}
    postprocess = {**pipeline._postprocess_params, **postprocess}
    of_tokenizer = preprocess.pop("tokenizer_kwargs", {})
    of_prompt = preprocess.pop("tokenizer_encode_kwargs", {})
    settings = preprocess | of_tokenizer | of_prompt | postprocess
    chat = _pop_chat_settings(settings, of_prompt)
    function = settings.pop("function_to_apply", None) or _default_function(pipeline)
    add_special_tokens = settings.pop("add_special_tokens", None)
    prefix = settings.pop("prefix", None) or ""
    longest = _pop_max_length(settings)
    # A pipeline that generates gives the settings of `generate`, which are in `forward`, to its first step, too.
    _check_settings(pipeline, {name: value for name, value in settings.items() if name not in forward}, reader)
    generates = pipeline.task in GENERATING_TASKS
    return PipelineSettings(
        question=None if reader is None else reader(pipeline, labels),  # what an extension makes of both
        # A pipeline has the function as its name, or as a member of an enumeration of transformers.
        problem=PROBLEMS.get(str(getattr(function, "value", function)).casefold()),
        add_special_tokens=add_special_tokens is not False,  # None of a pipeline that does not say it
        max_length=None if generates else longest,
        longest_prompt=longest if generates else None,
        prefix=prefix,
        generation=_generation(pipeline, forward),
        chat=chat,
    )


def _reader_of_question(pipeline: Any) -> Any:
    """Return the extension's function that reads a pipeline which asks its model more than a text; None for others."""
    task = str(pipeline.task)
    reader = registered("pipelines").get(task)
    if reader is None and task.partition("_")[0] in OTHER_QUESTIONS:  # a translation names its languages
        raise UnsupportedModelError(
            f"a pipeline for {task} asks its model more than a text, which is not explained; Explainer(pipeline.model, "
            "pipeline.tokenizer) explains the model's answers to texts"
        )
    if getattr(pipeline, "decoder", None) is not None:
        raise UnsupportedModelError(
            "the pipeline has a decoder=, a language model that chooses among what its model hears, which is not "
            "explained; make it without"
        )
    return reader


def _pop_chat_settings(settings: Options, of_prompt: Settings) -> Options:
    """Remove from the settings what a pipeline gives to its chat template, and return it.

    Args:
        settings: All settings of a pipeline by name, from which those of the template are removed.
        of_prompt: Those among them that are passed on with a prompt, to the tokenizer's call or to its chat template:
            what the call does not take is the template's.
    """
    of_call = inspect.signature(PreTrainedTokenizerBase.__call__).parameters
    names = ("tools", "documents", *(name for name in of_prompt if name not in of_call))
    chat = {name: settings.pop(name) for name in names if name in settings}
    continues_message = settings.pop("continue_final_message", None)
    if continues_message is not None:  # a message that goes on has no prompt for an answer behind it
        chat |= {"continue_final_message": continues_message, "add_generation_prompt": not continues_message}
    return chat


def _pop_max_length(settings: Options) -> int | None:
    """Remove the truncation of texts from the settings; return how many tokens it leaves, None for no truncation."""
    truncation = settings.pop("truncation", None)
    max_length: int | None = settings.pop("max_length", None)
    if truncation in (False, "do_not_truncate"):
        return None
    if truncation is None:  # with padding, transformers truncates by request alone
        return None if settings.get("padding") else max_length
    if truncation not in TRUNCATING:
        settings["truncation"] = truncation  # is refused
    return max_length


def _check_settings(pipeline: Any, settings: Settings, reader: Any) -> None:
    """Refuse settings with which a pipeline answers otherwise than is explained.

    Args:
        pipeline: The pipeline.
        settings: Its settings, without those that are applied here.
        reader: What reads a pipeline of an extension, which applies `OF_LABELS` itself; None for another one.

    Raises:
        InputError: If there are such settings.
    """
    harmless = IRRELEVANT | (OF_LABELS if reader is not None else set())
    # Only padding that is always added, and on the left, changes the positions of a text's own tokens.
    if settings.get("padding") != "max_length" or getattr(pipeline.tokenizer, "padding_side", "") != "left":
        harmless = harmless | {"padding"}
    strategy = settings.get("aggregation_strategy")  # a name, or a member of an enumeration of transformers
    if getattr(strategy, "value", strategy) in TOKEN_BY_TOKEN:
        harmless = harmless | {"aggregation_strategy"}
    refused = [
        CALLER_NAMES.get(name, name)
        for name, value in settings.items()
        if name not in harmless and not _is_default(pipeline, name, value)
    ]
    if refused:
        raise InputError(
            f"the pipeline was made with {', '.join(f'{name}=' for name in refused)}, with which it answers otherwise "
            "than is explained; make it without, or pass Explainer(pipeline.model, pipeline.tokenizer)"
        )


def _is_default(pipeline: Any, name: str, value: Any) -> bool:
    """Return whether a setting has the value that it has where nobody gives it.

    A pipeline hands its settings to its own methods and to the tokenizer, whose signatures have the defaults.
    """
    methods = [pipeline._sanitize_parameters, pipeline.preprocess, pipeline.postprocess]
    functions = [*methods, PreTrainedTokenizerBase.__call__]
    signatures = [inspect.signature(function).parameters for function in functions]
    defaults = [parameters[name].default for parameters in signatures if name in parameters]
    # The types are compared, too, as True equals 1.
    return value is None or any(type(value) is type(default) and value == default for default in defaults)


def _generation(pipeline: Any, forward: Options) -> GenerationOfPipeline:
    """Return what a pipeline passes to `generate`, of the arguments of its forward pass."""
    if not getattr(pipeline.model, "generation_config", None):
        return GenerationOfPipeline()
    given = {**getattr(pipeline, "_generate_kwargs", {}), **forward}  # newer versions set some apart
    given |= given.pop("generate_kwargs", None) or {}  # of pipelines that take them as one argument
    prefix_length = given.pop("prefix_length", 0)
    for name in ("tokenizer", "return_language"):
        given.pop(name, None)  # derived from the other settings
    defaults = generation_defaults(pipeline)
    kept = {name: value for name, value in defaults.items() if name not in UNUSED_DEFAULTS}
    return GenerationOfPipeline(given, kept, samples=bool(defaults.get("do_sample")), prefix_length=prefix_length)


def _default_function(pipeline: Any) -> str | None:
    """Return the default function that turns a single output, as of a reranker, into a probability."""
    config = pipeline.model.config
    # A model for regression has one output too, which is the answer as it is.
    is_single = pipeline.task in ONE_OUTPUT_TASKS and getattr(config, "num_labels", None) == 1
    return "sigmoid" if is_single and config.problem_type != "regression" else None


def _cross_encoder_problem(model: Any) -> Problem | None:
    """Return the problem type of a `CrossEncoder` that returns probabilities; None for anything else."""
    activation = getattr(model, "activation_fn", None) or getattr(model, "default_activation_function", None)
    return "multi-label" if callable(getattr(model, "rank", None)) and isinstance(activation, nn.Sigmoid) else None


def ignored_labels(pipeline: Any) -> list[int] | None:
    """Return the indices of labels that a pipeline of tags leaves out of its answers; None where it was not told."""
    settings = getattr(pipeline, "_postprocess_params", {})
    ignored = settings.get("ignore_labels")
    if ignored is None:
        return None
    strategy = settings.get("aggregation_strategy")
    of_tokens = getattr(strategy, "value", strategy) in (None, "none")
    labels = configured_labels(pipeline.model.config)
    names = labels if of_tokens else [re.sub("^[BI]-", "", label) for label in labels]  # of groups of tokens
    return [index for index, name in enumerate(names) if name in ignored]
