"""The model and the tokenizer in objects of sentence-transformers and of SetFit, known by their attributes."""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput

from ..errors import UnsupportedModelError
from ..loading.wrappers import refuse_extra_steps, with_length_limit
from .tasks.sentence_embedding import SentenceEmbedding, is_sentence_transformer, sentence_embedding


def held_in(model: Any) -> tuple[nn.Module, Any] | None:
    """Return the task model and the tokenizer of a `SentenceTransformer` or a `SetFitModel`; None for anything else."""
    if is_sentence_transformer(model):
        return model, model.tokenizer
    body = getattr(model, "model_body", None)
    if body is None or not is_sentence_transformer(body):
        return None
    embedding = sentence_embedding(body)
    refuse_extra_steps(model, embedding.steps.prompt or embedding.steps.lower)
    return SetFitForSequenceClassification(embedding, model), with_length_limit(body, body.tokenizer)


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
