"""The labels that two models share, and which of them is compared on a text."""

from collections.abc import Sequence
from typing import NamedTuple

from ..errors import InputError, TargetError, UnsupportedModelError
from ..model.task_model import TaskModel
from ..results.targets import Prediction
from ..tasks.targets import Choice, index_of
from ..text.same import word_key


class Pair(NamedTuple):
    """The indices of an output that both models have, by `BEFORE` and `AFTER`."""

    before: int  # in the model before
    after: int  # in the model after


class ComparedLabel(NamedTuple):
    """What is explained of both models: an output that they share, less another one."""

    label: Pair
    subtracted: Pair | None  # None for nothing


class SharedOutputs:
    """The outputs that two classifiers, or two regressions, share by their names.

    Attributes:
        pairs: The shared outputs.
        outcomes: Whether the labels exclude each other, see `TaskOutputs`; the same of both models.

    Raises:
        UnsupportedModelError: If the models answer in different ways.
        TargetError: If they share no label.
    """

    def __init__(self, before: TaskModel, after: TaskModel) -> None:
        _check_classifies(before)
        _check_classifies(after)
        outputs_before, outputs_after = before.task.outputs, after.task.outputs
        if (outputs_before.kind, outputs_before.outcomes) != (outputs_after.kind, outputs_after.outcomes):
            raise UnsupportedModelError(
                f"{before.name} and {after.name} answer in different ways: with values, with one of several labels or "
                "with several at once; compare models of one way"
            )
        labels_before, labels_after = outputs_before.labels, outputs_after.labels
        self.pairs = _pairs_of_labels(labels_before, labels_after)
        if outputs_after.kind == "value" and len(labels_before) == len(labels_after) == 1:
            self.pairs = [Pair(0, 0)]  # the only value of either, whatever it is called
        if not self.pairs:
            raise TargetError(
                f"no label of {before.name} ({', '.join(labels_before[:8])}) is one of {after.name} "
                f"({', '.join(labels_after[:8])}): name them alike with Explainer(..., labels=[...])"
            )
        self.outcomes = outputs_after.outcomes
        self._model_after = after
        self._are_binary = len(labels_before) == len(labels_after) == 2
        self._by_output_before = {pair.before: pair for pair in self.pairs}
        self._by_output_after = {pair.after: pair for pair in self.pairs}

    def pair_of(self, choice: Choice) -> Pair:
        """Return the output that a caller names, by its name or its index in the model after.

        Raises:
            TargetError: If the models do not share it.
        """
        model = self._model_after
        pair = self._by_output_after.get(index_of(model.task, choice, model.output_count))
        if pair is None:
            raise TargetError(f"{choice!r} is a label of {model.name} alone")
        return pair

    def compared(
        self, before: Prediction, after: Prediction, target: Choice | None = None, contrast: Choice | None = None
    ) -> ComparedLabel:
        """Return which label of a text is compared, and which is subtracted: those that the caller names.

        Otherwise it is the answer after rather than the one before; of equal answers, and of labels that do not
        exclude each other, the label itself, against the other one where there are two.

        Args:
            before: The prediction of the model before.
            after: The prediction of the model after.
            target: The label that the caller names for comparison.
            contrast: The label that the caller subtracts.

        Raises:
            InputError: If no label is named, and neither answer is a label of both models.
        """
        subtracted = None if contrast is None else self.pair_of(contrast)
        if target is not None:
            return ComparedLabel(self.pair_of(target), subtracted)
        answer_before = self._by_output_before.get(before.id)
        # Where only the model after has its answer among its labels, the answer before is compared.
        answer_after = self._by_output_after.get(after.id, answer_before)
        if answer_after is None:
            raise InputError(f"neither {before.label!r} nor {after.label!r} is a label of both models: give target=")
        if self.outcomes == "exclusive" and subtracted is None:
            subtracted = self._subtracted_from(answer_after, answer_before)
        return ComparedLabel(answer_after, subtracted)

    def _subtracted_from(self, answer_after: Pair, answer_before: Pair | None) -> Pair | None:
        """Return the answer before if it is another one, and of equal answers the other one of two labels.

        Args:
            answer_after: The answer after, or the answer before where only that is a shared label.
            answer_before: The answer before; None if it is not a shared label.
        """
        if answer_before not in (None, answer_after):
            return answer_before
        other_labels = [pair for pair in self.pairs if pair != answer_after]
        return other_labels[0] if self._are_binary and other_labels else None


def _check_classifies(model: TaskModel) -> None:
    """Refuse models that do not answer a text with labels, or with a value."""
    model.task.check_explains_inputs(model)
    model.task.check_input(model, "one text")
    if not model.task.position.pooled:
        raise UnsupportedModelError(
            f"{model.name} is for {model.task.name}, and compared are models that classify a text or give it a "
            "value, and language models on a completion: compare_models(before, prompts, completion)"
        )


def _pairs_of_labels(before: Sequence[str], after: Sequence[str]) -> list[Pair]:
    """Return the labels that both models have by their names, whatever their case.

    Where two labels of one model differ by their case alone, names are compared as they are.
    """
    keys_before, keys_after = list(map(word_key, before)), list(map(word_key, after))
    if len(set(keys_before)) < len(before) or len(set(keys_after)) < len(after):
        keys_before, keys_after = list(before), list(after)
    # A name that stands twice in one model is left out: it does not say which of the two is meant.
    return [
        Pair(index, keys_after.index(key))
        for index, key in enumerate(keys_before)
        if keys_before.count(key) == keys_after.count(key) == 1
    ]
