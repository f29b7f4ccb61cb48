"""Zero-shot classification: whether a text entails a hypothesis for each label, as transformers' pipeline asks it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from ..errors import InputError
from ..inputs.batching import Batch
from .model_copy import ModelCopy
from .task_model import TaskModel
from .tasks import Task, label_names

__all__ = ["Hypotheses", "ZeroShotModel", "hypotheses_of"]

TEMPLATE = "This example is {}."
"""The default of transformers' pipeline."""


@dataclass(frozen=True)
class Hypotheses:
    """What a zero-shot pipeline asks a model of natural language inference.

    Attributes:
        labels: The candidate labels.
        template: A hypothesis with {} in the place of the label.
        independent: Whether each label is right or wrong by itself, and not one of them right.
        entailment: Index of the model's output for entailment.
        contradiction: Index of its output for contradiction.
    """

    labels: tuple[str, ...]
    template: str
    independent: bool
    entailment: int
    contradiction: int

    @property
    def texts(self) -> tuple[str, ...]:
        """The hypothesis for each label."""
        return tuple(self.template.format(label) for label in self.labels)

    def values(self, logits: Tensor) -> Tensor:
        """Return the logit of each label, (C,), from those of the C pairs of text and hypothesis, (C, outputs)."""
        found = logits[:, self.entailment].float()  # (C,)
        return found - logits[:, self.contradiction].float() if self.independent else found

    def probabilities(self, values: Tensor) -> Tensor:
        """Return the probability of each label, (C,), from its logit."""
        return values.sigmoid() if self.independent else values.softmax(-1)


class ZeroShotModel(TaskModel):
    """A model of natural language inference with the hypotheses that it is asked.

    Args:
        model: The user's model; only read.
        tokenizer: Its tokenizer.
        name: What to call it in results.
        hypotheses: What it is asked.
        batch_tokens: Most tokens (padding included) in one forward pass.
    """

    def __init__(
        self,
        model: nn.Module,
        tokenizer: PreTrainedTokenizerBase,
        name: str | None = None,
        *,
        hypotheses: Hypotheses,
        batch_tokens: int = 8192,
    ) -> None:
        self.hypotheses = hypotheses
        super().__init__(model, tokenizer, name, batch_tokens=batch_tokens)

    def _adapt(self, copy: ModelCopy, task: Task) -> Task:
        """Let texts be compared by their answers, as choices are; the model itself reads pairs like any other."""
        return replace(super()._adapt(copy, task), kind="choice")

    def _as_given(self, inputs: dict[str, Tensor], batch: Batch) -> dict[str, Tensor]:
        return inputs


def hypotheses_of(pipeline: Any, labels: Sequence[str] | None) -> Hypotheses | None:
    """Return what a zero-shot pipeline asks; None for any other pipeline, and for models.

    Args:
        pipeline: A pipeline of transformers, or a model.
        labels: The candidate labels; by default those that the pipeline was made with.

    Raises:
        InputError: If there are no labels, two are the same, or the template has no place for a label.
    """
    if getattr(pipeline, "task", None) != "zero-shot-classification" or not hasattr(pipeline, "entailment_id"):
        return None
    asked = {**pipeline._preprocess_params, **pipeline._postprocess_params}
    names = label_names(asked.get("candidate_labels") if labels is None else labels)
    if not names:
        raise InputError(
            "a zero-shot pipeline needs its candidate labels: Explainer(pipeline, labels=['politics', 'sports']); "
            "Explainer(pipeline.model, pipeline.tokenizer) explains pairs of your own, (text, hypothesis)"
        )
    if len(set(names)) < len(names):
        raise InputError("the candidate labels must be different from each other")
    template = asked.get("hypothesis_template", TEMPLATE)
    try:
        has_place = template.format(names[0]) != template
    except (IndexError, KeyError, ValueError):
        has_place = False
    if not has_place:
        raise InputError(f"the pipeline's hypothesis_template {template!r} must hold {{}} once, for the label")
    # As the pipeline reads them: its own index of entailment is -1 where no output is named so.
    count, entailment = pipeline.model.config.num_labels, pipeline.entailment_id
    return Hypotheses(
        names,
        template,
        bool(asked.get("multi_label", False)) or len(names) == 1,
        entailment % count,
        count - 1 if entailment == 0 else 0,
    )
