"""Where two models answer differently, and which words carry the difference."""

from collections.abc import Sequence
from typing import Any, cast

from ..errors import InputError
from ..explainer import Explainer
from ..inputs.texts import repeatable
from ..leave_out.outcomes import Answer
from ..leave_out.picking import Verify, picked
from ..leave_out.removable import Removable, removable
from ..leave_out.removal import TextRemoval
from ..leave_out.search import run_searches
from ..methods import Method
from ..pipeline.options import checked_verify
from ..results.collection import Attributions
from ..results.targets import Prediction
from ..tasks.targets import Choice
from .aligned import Aligned
from .explaining import ExplainedTexts, explain_answers, explain_completions
from .result import AFTER, BEFORE, ModelDifference
from .shared_outputs import SharedOutputs
from .sides import Sides, sides_of


def compare(
    before: Any,
    after: Explainer,
    texts: Any,
    completion: Any = None,
    *,
    target: Choice | None = None,
    contrast: Choice | None = None,
    method: str | Method | None = None,
    verify: Verify = None,
) -> Any:
    """Compare two models on texts.

    Args:
        before: The model before, see `explainer_or_context`.
        after: The explainer of the model after.
        texts: A text, or several; with a completion the prompts.
        completion: The completion of each prompt; None to compare answers of classifiers.
        target: The label that is compared; None for the answer after.
        contrast: The label that is subtracted; None for the answer before.
        method: The method; None for the default.
        verify: What is left out, to measure what both models answer without it.

    Returns:
        A `ModelDifference`, or several of them.

    Raises:
        InputError: If the models, the texts and the completions do not fit each other.
        UnsupportedModelError: If the models answer in different ways.
    """
    sides = sides_of(before, after)
    verify = checked_verify(verify)
    if completion is None:
        explained = explain_answers(sides, repeatable(texts), target, contrast, method)
    elif target is not None or contrast is not None:
        raise InputError("target= and contrast= are for classifiers; a completion is compared whole")
    else:
        explained = explain_completions(sides, texts, completion, method)
    compared = Compared(sides, explained)
    differences = compared.differences()
    if verify is not None:
        removables = [_words_by_difference(d, verify) for d in differences]
        searched = run_searches(differences, removables, compared.differences_without)
        differences = cast(list[ModelDifference], searched)
    return differences[0] if explained.single else Attributions(differences)


class Compared:
    """Texts that two models have explained.

    Args:
        sides: The models, before and after.
        explained: What they made of the texts.

    Attributes:
        aligned: The attributions of each text by both models, aligned by its words.
    """

    def __init__(self, sides: Sides, explained: ExplainedTexts) -> None:
        self._sides = sides
        self._explained_by_model = explained.by_model
        self._outputs = explained.outputs
        attributions = [of_model.attributions for of_model in explained.by_model]
        self.aligned = [Aligned.of(*attributions_of_text) for attributions_of_text in zip(*attributions, strict=True)]

    def answers_without(self, removals: Sequence[TextRemoval]) -> list[tuple[Answer, Answer]]:
        """Return the answers of both models without some words of texts.

        Args:
            removals: The words that are removed, by their indices in the aligned texts.
        """
        answers_by_model = []
        for model in (BEFORE, AFTER):
            token_removals = [TextRemoval(text, self.aligned[text].tokens(words, model)) for text, words in removals]
            with self._sides[model].active():
                answers_by_model.append(self._explained_by_model[model].answers_without(token_removals))
        return list(zip(*answers_by_model, strict=True))

    def differences_without(self, removals: Sequence[TextRemoval]) -> list[Answer]:
        """Return the differences of both models' answers without some words of texts, see `answers_without`."""
        return [_difference(*answers, self._outputs) for answers in self.answers_without(removals)]

    def differences(self) -> list[ModelDifference]:
        """Return the difference of the two models for each text."""
        names = (self._sides[BEFORE].name, self._sides[AFTER].name)
        answers_of_texts = self.answers_without([TextRemoval(text, ()) for text in range(len(self.aligned))])
        return [
            text.difference(names, answers, _difference(*answers, self._outputs))
            for text, answers in zip(self.aligned, answers_of_texts, strict=True)
        ]


def _difference(before: Answer, after: Answer, outputs: SharedOutputs | None) -> Answer:
    """Return the difference of two answers as an answer, whose outcome is whether they differ.

    Args:
        before: The answer of the model before.
        after: The answer of the model after.
        outputs: The labels that the models share; None of completions, which have no prediction.
    """
    value = after.value - before.value
    prediction_before, prediction_after = before.prediction, after.prediction
    if prediction_before is None or prediction_after is None or outputs is None:
        return Answer(prediction=None, value=value, outcome=None)
    label = prediction_after.label
    differ: bool | None = None  # of values, which are not told apart
    if outputs.outcomes == "exclusive":
        differ = (prediction_before.id, prediction_after.id) not in outputs.pairs
        label = f"{prediction_before.label} → {label}" if differ else label
    elif outputs.outcomes is not None:
        # Of several true labels, each answer says whether the compared one holds, see `TaskOutputs.outcome`.
        differ = before.outcome != after.outcome
    prediction = Prediction(label, prediction_after.id, value, probability=None)
    return Answer(prediction, value, outcome=differ)


def _words_by_difference(d: ModelDifference, verify: Verify) -> Removable:
    """Return the words of a text that can be left out, first those that carry the difference.

    Args:
        d: The difference of the models on the text.
        verify: What the caller asked for.
    """
    words = removable(d)
    before, after = d.measured
    sign = -1.0 if after < before else 1.0  # a difference below zero is carried by the negative scores
    words = words._replace(
        parts=[word._replace(score=sign * word.score) for word in words.parts],
        target=d.target.name,
        quantity="difference",
        may_be_empty=d.completion is None,
    )
    return picked(d, words, verify)
