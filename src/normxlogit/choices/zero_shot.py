"""Zero-shot classification: the model says whether a text entails a hypothesis for each label."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from torch import nn

from ..errors import InputError
from ..inputs.label_names import label_names
from ..inputs.texts import read_texts
from ..tasks.base import summary
from ..tasks.classification import Classification
from .comparing import Alternatives, Comparing, Questions

TEMPLATE = "This example is {}."
"""The default of transformers' pipeline."""


class ZeroShot(Comparing):
    """A classifier of pairs of a text and a hypothesis for each label.

    The text and the hypothesis of a label are one pair, whose logit for entailment is explained; where each label is
    right or wrong by itself, minus that for contradiction.

    Args:
        classifier: The model's own task: it classifies a pair by whether the text entails the hypothesis.
        labels: The labels with their hypotheses.
        entailment: The index of the classifier's output for entailment.
        contradiction: The index of its output for contradiction, if each label is right or wrong by itself; None if
            one of them is right.
    """

    name = Classification.name

    def __init__(
        self, classifier: Classification, labels: Mapping[str, str], entailment: int, contradiction: int | None
    ) -> None:
        super().__init__(tokenizer=classifier.tokenizer)
        self.classifier = classifier
        self.labels = labels
        self.outputs = classifier.outputs
        self.output = entailment
        self.subtracted = contradiction
        self.independent = contradiction is not None

    def __repr__(self) -> str:
        return summary("zero-shot-classification", list(self.labels))

    def adapt(self, module: nn.Module) -> bool:
        """Make a copy callable as that of the classifier of pairs; see `Task.adapt`."""
        return self.classifier.adapt(module)

    def alternatives(self, inputs: Any) -> Questions:
        """Return the pairs of each text with all hypotheses."""
        texts, single = read_texts(inputs)
        if any(isinstance(text, tuple) for text in texts):
            raise InputError(
                "a zero-shot pipeline reads texts, whose hypotheses are made of its labels, and a pair was given; "
                "Explainer(pipeline.model, pipeline.tokenizer) explains pairs of your own, (text, hypothesis)"
            )
        names = list(self.labels)
        hypotheses = self.labels.values()
        return [Alternatives(names, [(str(text), hypothesis) for hypothesis in hypotheses]) for text in texts], single


def task_of_pipeline(pipeline: Any, labels: Sequence[str] | None) -> Callable[[Classification], ZeroShot]:
    """Return a function that makes the task of a zero-shot pipeline from the task of its classifier.

    Args:
        pipeline: A zero-shot-classification pipeline of transformers.
        labels: The candidate labels; None for those that the pipeline was made with.

    Raises:
        InputError: If there are no labels, or two are the same, or the template has no place for a label.
    """
    # Of the pipeline's steps: labels and template are of the first, `multi_label` of the second.
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
        has_label = template.format(names[0]) != template  # without a place for it, the template stays as it is
    except (IndexError, KeyError, ValueError):
        has_label = False
    if not has_label:
        raise InputError(f"the pipeline's hypothesis_template {template!r} must hold {{}} once, for the label")
    # As transformers' pipeline takes them: entailment is -1, the last output, where no output is named so, and
    # contradiction the first output, or the last one if entailment is the first.
    output_count = pipeline.model.config.num_labels
    entailment = pipeline.entailment_id
    contradiction = None
    is_independent = bool(settings.get("multi_label", False)) or len(names) == 1  # one label has nothing to exclude
    if is_independent:
        contradiction = output_count - 1 if entailment == 0 else 0
    hypotheses = {name: template.format(name) for name in names}
    return partial(ZeroShot, labels=hypotheses, entailment=entailment % output_count, contradiction=contradiction)
