"""Zero-shot classification: the model says whether a text entails a hypothesis for each label."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from transformers import PreTrainedModel

from ..errors import InputError
from ..inputs.texts import read_texts
from ..tasks.base import summary
from ..tasks.classification import Classification, label_names
from .comparing import Alternatives, Comparing

TEMPLATE = "This example is {}."
"""The default of transformers' pipeline."""


@dataclass(frozen=True)
class Hypotheses:
    """The hypotheses of a zero-shot pipeline, and the indices of entailment and contradiction.

    Attributes:
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

    def __call__(self, classifier: Classification) -> "ZeroShot":
        """Return the task that asks a classifier of pairs about the labels."""
        return ZeroShot(classifier, self)


class ZeroShot(Comparing):
    """A classifier of pairs of a text and a hypothesis for each label.

    The text and the hypothesis of a label are one pair, whose logit for entailment is explained; where each label is
    right or wrong by itself, minus that for contradiction.
    """

    name = Classification.name

    def __init__(self, classifier: Classification, hypotheses: Hypotheses) -> None:
        super().__init__(tokenizer=classifier.tokenizer)
        self.classifier, self.hypotheses, self.outputs = classifier, hypotheses, classifier.outputs
        self.independent = hypotheses.independent

    def __repr__(self) -> str:
        return summary("zero-shot-classification", self.hypotheses.labels)

    def adapt(self, module: PreTrainedModel) -> bool:
        """Adapt the model like a classifier of pairs."""
        return self.classifier.adapt(module)

    def alternatives(self, inputs: Any) -> tuple[list[Alternatives], bool]:
        """Return the pairs of each text with all hypotheses."""
        texts, single = read_texts(inputs)
        if any(isinstance(text, tuple) for text in texts):
            raise InputError(
                "a zero-shot pipeline reads texts, whose hypotheses are made of its labels, and a pair was given; "
                "Explainer(pipeline.model, pipeline.tokenizer) explains pairs of your own, (text, hypothesis)"
            )
        labels = self.hypotheses.labels
        hypotheses = [self.hypotheses.template.format(label) for label in labels]
        return [Alternatives(labels, [(str(text), hypothesis) for hypothesis in hypotheses]) for text in texts], single

    def values(self, logits: Tensor) -> Tensor:
        """Return the logit of each label, (C,), from the outputs for its pair of text and hypothesis, (C, outputs)."""
        entailment = logits[:, self.hypotheses.entailment].float()  # (C,)
        if not self.independent:
            return entailment
        return entailment - logits[:, self.hypotheses.contradiction].float()

    def pair_options(self) -> dict[str, Any]:
        """Return entailment as the target, with contradiction as the contrast where labels are independent."""
        contrast = self.hypotheses.contradiction if self.independent else None
        return {"target": self.hypotheses.entailment, "contrast": contrast, "token_predictions": False}


def hypotheses_of(pipeline: Any, labels: Sequence[str] | None) -> Hypotheses:
    """Return the hypotheses of a zero-shot pipeline.

    Args:
        pipeline: A pipeline of transformers.
        labels: The candidate labels; by default those that the pipeline was made with.
    """
    settings = {**pipeline._preprocess_params, **pipeline._postprocess_params}
    names = label_names(settings.get("candidate_labels") if labels is None else labels)
    if not names:
        raise InputError(
            "a zero-shot pipeline needs its candidate labels: Explainer(pipeline, labels=['politics', 'sports']); "
            "Explainer(pipeline.model, pipeline.tokenizer) explains pairs of your own, (text, hypothesis)"
        )
    if len(set(names)) < len(names):
        raise InputError("the candidate labels must be different from each other")
    template = settings.get("hypothesis_template", TEMPLATE)
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
        bool(settings.get("multi_label", False)) or len(names) == 1,
        entailment % count,
        count - 1 if entailment == 0 else 0,
    )
