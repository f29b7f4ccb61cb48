"""The module and tokenizer inside a pipeline, a sentence-transformers object or a SetFit model.

The objects are known by their attributes: neither package is needed.
"""

import copy
import inspect
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.swa_utils import AveragedModel
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.models.auto.processing_auto import PROCESSOR_MAPPING

from ..errors import InputError, UnsupportedModelError
from ..similarity.tasks.sentence_embedding import SentenceEmbedding, is_sentence_transformer, sentence_embedding
from ..tasks import is_bare
from ..tasks.classification import label_names
from ..tasks.zero_shot import hypotheses_of
from .pipeline_settings import pipeline_settings

REPLICATING = (nn.DataParallel, nn.parallel.DistributedDataParallel, AveragedModel)
"""Modules whose forward pass is that of their `module`."""


class SetFitForSequenceClassification(PreTrainedModel):
    """A SetFit model as a task model: an embedding model with a classification head.

    Args:
        body: The embedding model; its trunk stays the caller's own.
        setfit: The SetFit model, whose head is read at each call: it may be fitted anew.
    """

    base_model_prefix = "body"

    def __init__(self, body: SentenceEmbedding, setfit: Any) -> None:
        nn.Module.__init__(self)  # that of a pretrained model would write on the trunk's configuration
        _classifier(setfit)  # an error now is better than one at the first text
        names = _class_names(setfit)
        self.config = copy.deepcopy(body.config)
        self.config.num_labels = len(names)
        self.config.id2label = dict(enumerate(names))
        multiple = bool(getattr(setfit.model_head, "multitarget", False))
        self.config.problem_type = "multi_label_classification" if multiple else "single_label_classification"
        self.body = body
        self.setfit = setfit
        self.training = body.training

    def forward(self, **inputs: Any) -> SequenceClassifierOutput:
        """Classify texts."""
        output = self.body(**inputs)
        vector = output.logits  # (B, H)
        if self.body.steps.normalize or self.setfit.normalize_embeddings:
            vector = functional.normalize(vector, dim=-1)
        return SequenceClassifierOutput(logits=_classifier(self.setfit)(vector), hidden_states=output.hidden_states)


def module_and_reader(model: Any, tokenizer: Any) -> tuple[nn.Module, Any]:
    """Return the module and its tokenizer or processor, also from what holds both.

    That is a pipeline, a `Trainer`, a `CrossEncoder` or a `SetFitModel`; and a module of `REPLICATING` is its own one.
    """
    if isinstance(model, REPLICATING):
        model = model.module
    if (unwrapped := _unwrap_classifier(model)) is not None:
        model, tokenizer = unwrapped[0], tokenizer or unwrapped[1]
    module = model
    if isinstance(model, torch.jit.ScriptModule):
        raise UnsupportedModelError(
            "a traced or scripted module does not show its parts; pass the module that it was made of"
        )
    if not isinstance(model, nn.Module):
        module = getattr(model, "model", None)
        tokenizer = tokenizer or _reader_of(model)
    elif is_sentence_transformer(module):
        tokenizer = tokenizer or module.tokenizer
    if not isinstance(module, nn.Module):
        raise InputError(
            f"an Explainer takes a model or a pipeline, not {type(model).__name__}; "
            "Explainer.from_pretrained takes a name or folder"
        )
    if tokenizer is None:
        raise InputError(
            "the model needs its tokenizer, for pictures and sounds its processor: Explainer(model, tokenizer)"
        )
    if isinstance(tokenizer, type) or not callable(tokenizer):
        raise InputError(
            f"the tokenizer must be one that was loaded, not a {type(tokenizer).__name__}; "
            "Explainer.from_pretrained loads both by a name or folder"
        )
    return module, tokenizer


def wrapped_state(model: Any, tokenizer: Any, labels: Sequence[str] | None) -> dict[str, Any]:
    """Return the module, tokenizer, labels and pipeline settings of a model or pipeline."""
    module, reader = module_and_reader(model, tokenizer)
    names = None if labels is None else label_names(labels)
    return {
        "model": module,
        "tokenizer": reader,
        "labels": names,
        "pipeline": pipeline_settings(model, hypotheses_of(model, names)),
    }


def _reader_of(pipeline: Any) -> Any:
    """Return the processor or tokenizer of a pipeline or a `Trainer`; several parts are combined to a processor."""
    processor = getattr(pipeline, "processor", None) or getattr(pipeline, "processing_class", None)
    names = ("tokenizer", "image_processor", "feature_extractor")
    parts = {name: part for name in names if (part := getattr(pipeline, name, None)) is not None}
    if processor is not None or len(parts) < 2:
        return processor or next(iter(parts.values()), None)
    processor_class = cast(Any, PROCESSOR_MAPPING).get(type(getattr(pipeline.model, "config", None)), None)
    if processor_class is None:
        return next(iter(parts.values()))
    parameters = inspect.signature(processor_class).parameters
    return processor_class(**{name: part for name, part in parts.items() if name in parameters})


def _unwrap_classifier(model: Any) -> tuple[nn.Module, PreTrainedTokenizerBase] | None:
    """Return the task model and the tokenizer of a `CrossEncoder` or a `SetFitModel`; None for anything else."""
    body = getattr(model, "model_body", None)
    if body is not None and is_sentence_transformer(body):
        embedding = sentence_embedding(body)
        _refuse_extra_steps(model, embedding.steps.prompt or embedding.steps.lower)
        return SetFitForSequenceClassification(embedding, model), _with_length_limit(body, body.tokenizer)
    if isinstance(model, PreTrainedModel) or not callable(getattr(model, "rank", None)):
        return None  # a `CrossEncoder` ranks documents
    task_model = getattr(model, "transformers_model", None) or getattr(model, "model", None)
    if not isinstance(task_model, nn.Module) or is_bare(task_model):
        return None
    steps = [type(module).__name__ for module in model.children()] if isinstance(model, nn.Sequential) else []
    _refuse_extra_steps(model, len(steps) > 1 or getattr(model, "default_prompt_name", None))
    return task_model, _with_length_limit(model, cast(Any, model).tokenizer)


def _refuse_extra_steps(model: Any, has_extra_steps: object) -> None:
    """Refuse an object that computes more than its transformers model and its head."""
    if has_extra_steps:
        raise UnsupportedModelError(
            f"this {type(model).__name__} has modules or prompts around its model of transformers, which would be left "
            "out; pass the model of transformers inside it, with its tokenizer, and texts as it reads them"
        )


def _with_length_limit(model: Any, tokenizer: PreTrainedTokenizerBase) -> PreTrainedTokenizerBase:
    """Return the tokenizer, or a copy with a lower `model_max_length` if the model reads fewer tokens."""
    longest = getattr(model, "max_seq_length", None) or getattr(model, "max_length", None)
    if not isinstance(longest, int) or longest >= tokenizer.model_max_length:
        return tokenizer
    limited = copy.copy(tokenizer)
    limited.model_max_length = longest
    return limited


def _classifier(setfit: Any) -> Callable[[Tensor], Tensor]:
    """Return the head of a SetFit model: from vectors, (B, H), to logits, (B, C)."""
    head: Any = setfit.model_head
    if hasattr(head, "linear") and hasattr(head, "temperature"):
        return lambda vector: head.linear(vector) / (head.temperature + head.eps)
    weight, bias = getattr(head, "coef_", None), getattr(head, "intercept_", None)
    classes = getattr(head, "classes_", ())
    is_joint = getattr(head, "solver", "liblinear") != "liblinear" or len(classes) == 2  # else one model for each class
    if type(head).__name__ != "LogisticRegression" or weight is None or not is_joint:
        raise UnsupportedModelError(
            f"the head of this {type(setfit).__name__} is a {type(head).__name__}; expected a SetFitHead or a fitted "
            "LogisticRegression of scikit-learn that chooses one of several labels"
        )

    def joint_logits(vector: Tensor) -> Tensor:
        weights, biases = (torch.as_tensor(array).to(vector) for array in (weight, bias))  # (C, H) or (1, H), (C,)
        log_odds = functional.linear(vector, weights, biases)
        return (
            torch.cat((-log_odds / 2, log_odds / 2), -1) if len(classes) == 2 else log_odds
        )  # of two, the log-odds of one

    return joint_logits


def _class_names(setfit: Any) -> list[str]:
    """Return the names of the classes in the order of the head's outputs."""
    labels: Sequence[str] | None = setfit.labels
    linear = getattr(setfit.model_head, "linear", None)
    classes = range(linear.out_features) if linear is not None else setfit.model_head.classes_.tolist()
    return [
        str(labels[label]) if labels and isinstance(label, int) and label < len(labels) else str(label)
        for label in classes
    ]
