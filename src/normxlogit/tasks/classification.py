"""Classification of texts and of pairs of texts: one label of several, several labels at once, or a value."""

from collections.abc import Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import Any

from torch import Tensor
from transformers import PretrainedConfig, PreTrainedModel

from ..copies.answer_form import AnswerForm
from ..errors import InputError, UnsupportedModelError
from ..extending import ModelClasses
from ..inputs.label_names import label_names
from ..results.storage.schema import Strings
from .base import Task
from .task_outputs import Outputs, Problem

MAX_SHOWN_CHARACTERS = 100
"""Characters of a wrong setting that an error shows."""


class Labels(Outputs):
    """The labels of a classifier: one of them, several at once, or values.

    Args:
        labels: The names of the outputs.
        problem: Which of these the classifier answers with.
    """

    def __init__(self, labels: Strings = (), problem: Problem = "single-label") -> None:
        self.problem: Problem = problem
        if problem == "regression":
            super().__init__(labels, "value", None)
        else:
            super().__init__(labels, outcomes="independent" if problem == "multi-label" else "exclusive")

    @classmethod
    def of(cls, model: Any, labels: Sequence[str] | None, *, problem: Problem | None = None) -> "Labels":
        """Return the labels of a model, by its configuration; those of a plain module are known when it was called.

        Args:
            model: The model.
            labels: The caller's names of its outputs; None for those of its configuration.
            problem: The problem that it solves; None for that of its configuration.
        """
        if not isinstance(model, PreTrainedModel):
            return cls(label_names(labels), problem or "single-label")
        defaults = configured_labels(model.config)
        names = _checked_label_names(labels, len(defaults), type(model).__name__) or defaults
        return cls(names, problem or _configured_problem(model.config, len(defaults)))

    def of_problem(self, problem: Problem) -> "Labels":
        """Return the labels of a pipeline that says which problem its model solves."""
        return self._with(self.labels, problem)

    def _with(self, labels: Strings, problem: Problem) -> "Labels":
        """Return a copy, of the same subclass with its attributes, with other labels or another problem."""
        changed = copy(self)
        Labels.__init__(changed, labels, problem)
        return changed

    def of_answer(self, form: AnswerForm, logits: Tensor | None = None, name: str = "") -> "Labels":
        """Return the outputs of a model that returns values, or probabilities of labels that exclude each other or not.

        Those of a plain module have a label for each output.

        Args:
            form: The form of its answer, and what the caller declared it to be.
            logits: What a plain module answered, (B, C) or (B, T, C); None of a model of transformers.
            name: The model's, for errors.
        """
        problem = self._problem_of_answer(form, logits)
        labels = self.labels
        if logits is not None:
            count = logits.shape[-1]
            labels = _checked_label_names(labels, count, name) or tuple(f"LABEL_{index}" for index in range(count))
        return self._with(labels, problem)

    def _problem_of_answer(self, form: AnswerForm, logits: Tensor | None) -> Problem:
        """Return which problem a model solves, by the form of its answer and what a plain module answered."""
        if form.normaliser is not None:  # it returns probabilities
            return "single-label" if form.normaliser.outcomes == "exclusive" else "multi-label"
        if form.declared == "values":  # as the caller says of a plain module
            return "regression"
        output_count = len(self.labels) if logits is None else logits.shape[-1]
        if output_count != 1:  # only a single output could be a value or a label
            return self.problem
        if form.declared == "logits":
            return "multi-label"  # the logit of one label, which holds or not
        is_value_of_plain_module = logits is not None and logits.ndim == 2  # (B, 1), for the whole text
        return "regression" if is_value_of_plain_module else self.problem


class Classification(Task):
    """Classification of whole texts."""

    name = "sequence-classification"
    models = ModelClasses(
        mapping="MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES",
        auto_class="AutoModelForSequenceClassification",
        peft_type="SEQ_CLS",
        plain=True,
    )

    @cached_property
    def outputs(self) -> Outputs:  # type: ignore[override]  # that a class may declare in its place
        """The labels of the model, by the names that the caller gave or its configuration."""
        return Labels.of(self._model, self._labels)


def _checked_label_names(labels: Sequence[str] | None, count: int, name: str) -> Strings:
    """Return the caller's labels, after checking that there are `count`; `name` is the model's, for the error."""
    names = label_names(labels)
    if names and len(names) != count:
        raise InputError(f"{name} has {count} outputs and {len(names)} labels were given; give one for each")
    return names


def _configured_problem(config: PretrainedConfig, outputs: int) -> Problem:
    """Return the problem type, from the configuration and the number of outputs, as transformers' classifiers do."""
    if config.problem_type == "regression" or (config.problem_type is None and outputs == 1):
        return "regression"
    return "multi-label" if config.problem_type == "multi_label_classification" else "single-label"


def configured_labels(config: PretrainedConfig) -> Strings:
    """Return the label names in the order of the outputs."""
    id2label: Any = config.id2label or {}  # a caller may have set it to anything
    pairs = id2label.items() if isinstance(id2label, Mapping) else enumerate(id2label)  # a list, set by hand
    names = {str(index): label for index, label in pairs}  # keys may be numbers, or strings as in JSON
    labels = [names.get(str(index)) for index in range(len(names))]
    if not labels or None in labels:
        raise UnsupportedModelError(
            "id2label of the model's configuration must name the outputs from 0 up, as in {0: 'no', 1: 'yes'}, and is "
            f"{str(config.id2label)[:MAX_SHOWN_CHARACTERS]}; set config.id2label"
        )
    return tuple(map(str, labels))
