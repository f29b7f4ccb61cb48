"""Where families of post-LayerNorm encoders have the parts of their layers and heads."""

from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, NamedTuple

from torch import nn
from transformers.activations import ACT2FN

from ..errors import UnsupportedModelError
from ..model.task_model import TaskModel

ENCODERS = "a post-LayerNorm encoder (BERT, RoBERTa, XLM-R, CamemBERT, ELECTRA or DistilBERT)"


@dataclass(frozen=True)
class LayerPaths:
    """The paths of a layer's parts inside it."""

    attention: str  # the module that computes attention probabilities and the values' sums
    value: str  # the linear map to the values
    output: str  # the linear map behind attention
    norm1: str  # the LayerNorm behind attention and residual
    up: str  # the first linear map of the feed-forward part, before the activation
    down: str  # the second one
    norm2: str  # the LayerNorm behind the feed-forward part and residual


@dataclass(frozen=True)
class HeadPaths:
    """The paths of a head's parts in the model, in reverse order of their use.

    Attributes:
        out: The last linear map, which returns the logits.
        dense: The linear map before it; `{base}` stands for the name of the trunk. None without one.
        activation: The activation behind `dense`: a name in transformers' `ACT2FN`, or a path.
        norm: The LayerNorm behind the activation; None without one.
    """

    out: str
    dense: str | None = None
    activation: str = "linear"
    norm: str | None = None


class Family(NamedTuple):
    """Where the models of a family have their parts."""

    layers: str  # the list of layers in the base model
    layer: LayerPaths
    heads: dict[str, HeadPaths]  # by the name of the task


_BERT_LAYER = LayerPaths(
    attention="attention.self",
    value="attention.self.value",
    output="attention.output.dense",
    norm1="attention.output.LayerNorm",
    up="intermediate.dense",
    down="output.dense",
    norm2="output.LayerNorm",
)
_DISTILBERT_LAYER = LayerPaths(
    attention="attention",
    value="attention.v_lin",
    output="attention.out_lin",
    norm1="sa_layer_norm",
    up="ffn.lin1",
    down="ffn.lin2",
    norm2="output_layer_norm",
)

_TOKEN_HEADS = {"token-classification": HeadPaths("classifier"), "question-answering": HeadPaths("qa_outputs")}
_POOLED = HeadPaths("classifier", dense="{base}.pooler.dense", activation="tanh")
_DISTILBERT_POOLED = HeadPaths("classifier", dense="pre_classifier", activation="relu")
_BERT_LM = HeadPaths(
    "cls.predictions.decoder",
    dense="cls.predictions.transform.dense",
    activation="cls.predictions.transform.transform_act_fn",
    norm="cls.predictions.transform.LayerNorm",
)
_ROBERTA_LM = HeadPaths("lm_head.decoder", dense="lm_head.dense", activation="gelu", norm="lm_head.layer_norm")
_ELECTRA_LM = HeadPaths(
    "generator_lm_head",
    dense="generator_predictions.dense",
    activation="generator_predictions.activation",
    norm="generator_predictions.LayerNorm",
)
_DISTILBERT_LM = HeadPaths("vocab_projector", dense="vocab_transform", activation="activation", norm="vocab_layer_norm")

_BERT_HEADS = _TOKEN_HEADS | {
    "sequence-classification": _POOLED,
    "multiple-choice": _POOLED,
    "masked-lm": _BERT_LM,
    "causal-lm": _BERT_LM,
}
_ROBERTA_HEADS = _TOKEN_HEADS | {
    "sequence-classification": HeadPaths("classifier.out_proj", dense="classifier.dense", activation="tanh"),
    "multiple-choice": _POOLED,
    "masked-lm": _ROBERTA_LM,
    "causal-lm": _ROBERTA_LM,
}
_ELECTRA_HEADS = _TOKEN_HEADS | {
    "sequence-classification": HeadPaths(
        "classifier.out_proj", dense="classifier.dense", activation="classifier.activation"
    ),
    "masked-lm": _ELECTRA_LM,
}
_DISTILBERT_HEADS = _TOKEN_HEADS | {
    "sequence-classification": _DISTILBERT_POOLED,
    "multiple-choice": _DISTILBERT_POOLED,
    "masked-lm": _DISTILBERT_LM,
}

_ROBERTA = Family("encoder.layer", _BERT_LAYER, _ROBERTA_HEADS)
FAMILIES = {
    "bert": Family("encoder.layer", _BERT_LAYER, _BERT_HEADS),
    "roberta": _ROBERTA,
    "xlm-roberta": _ROBERTA,
    "camembert": _ROBERTA,
    "electra": Family("encoder.layer", _BERT_LAYER, _ELECTRA_HEADS),
    "distilbert": Family("transformer.layer", _DISTILBERT_LAYER, _DISTILBERT_HEADS),
}
"""The families, by their `model_type` in transformers."""


def family_of(model: TaskModel) -> Family:
    """Return the family of a model.

    Args:
        model: The model.

    Raises:
        UnsupportedModelError: If it is of no known one, or is a decoder that reads another model's states.
    """
    family = FAMILIES.get(model.config.model_type)
    if family is None or getattr(model.config, "add_cross_attention", False):
        raise UnsupportedModelError(f"needs {ENCODERS}, and this is a {model.class_name}")
    return family


def head_paths(model: TaskModel) -> HeadPaths:
    """Return the paths of the parts of the model's head."""
    paths = family_of(model).heads.get(model.task.name)
    if paths is None:
        raise UnsupportedModelError(f"does not know the {model.task.name} head of {model.class_name}")
    # The trunk's name in the model, such as "bert"; a path without `{base}` stays, and None, too.
    return replace(paths, dense=paths.dense and paths.dense.format(base=model.module.base_model_prefix))


def activation_function(model: nn.Module, name: str) -> Any:
    """Return an activation function.

    Args:
        model: The model.
        name: Its name in transformers, or its path in the model.
    """
    return ACT2FN[name] if name in ACT2FN else attrgetter(name)(model)  # which follows the dots of a path
