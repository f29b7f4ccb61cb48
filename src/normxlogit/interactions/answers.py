"""The explained quantity of an input, as a function of which of its units are present."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import InputError, UnsupportedModelError
from ..inputs.encoding import Encoding
from ..leave_out.outcomes import Answer
from ..leave_out.picking import removable_for_task
from ..leave_out.removable import Removable
from ..leave_out.removal import TextRemoval, Tokens, masks
from ..leave_out.smallest import tokens_of
from ..leave_out.text_answers import TextAnswers
from ..methods.perturbation import Booleans, Floats, log_odds
from ..model.task_model import TaskModel
from ..pipeline.completions.completed import Completed
from ..pipeline.completions.leave_out import Ablations, answers_without
from ..pipeline.completions.verification import removable_sources
from ..pipeline.progress import VERIFYING
from ..results.attribution import Attribution
from ..results.targets import Quantity
from ..results.units.spans import SourceSpec
from ..results.units.units import UnitScore

LEAST_PROBABILITY = 1e-300
"""In place of a probability of 0, whose logarithm is not finite."""


@dataclass(frozen=True)
class UnitAnswers:
    """What a model answers to an input with some of its units.

    Attributes:
        attribution: The explanation of the whole input.
        removable: The units, in the order of the text, and how they are removed.
        answers: Returns the answers to the input, which is text 0, without some tokens.
        value_of: Returns the explained quantity of an answer.
        quantity: What that is.
        may_be_empty: Whether there is an answer without any unit.
        removed_sets: The sets of tokens without which the model has been run; for each of them it is run once.
    """

    attribution: Attribution
    removable: Removable
    answers: Callable[[list[TextRemoval]], Iterable[Answer]]
    value_of: Callable[[Answer], float]
    quantity: Quantity
    may_be_empty: bool
    removed_sets: set[Tokens] = field(default_factory=set)

    @property
    def contributions(self) -> Floats:
        """What each unit contributes by the attribution, (M,)."""
        return np.array([unit.score for unit in self.removable.parts], np.float64)

    def values(self, present: Booleans) -> Floats:
        """Return the explained quantity of masks, (N,), for masks (N, M) of the units that are present."""
        absent = [np.flatnonzero(~mask).tolist() for mask in present]
        answers = self.without([tokens_of(self.removable.parts, members) for members in absent])
        return np.array([self.value_of(answer) for answer in answers], np.float64)

    def without(self, sets: Sequence[Tokens]) -> list[Answer]:
        """Return the answers to the input without each of several sets of tokens."""
        self.removed_sets.update(sets)  # a set that was asked before is answered without another run
        return list(self.answers([TextRemoval(0, tokens) for tokens in sets]))


def answers_to_text(model: TaskModel, encoding: Encoding, a: Attribution, units: Any) -> UnitAnswers:
    """Return a model's answers to a text or a pair of texts, a picture or a sound, with some of its units.

    Args:
        model: The model.
        encoding: The input.
        a: Its explanation.
        units: A kind of unit, or those that the caller names; None for words, regions or moments.

    Raises:
        UnsupportedModelError: If the answer is a span of the text.
        InputError: If there are no such units.
    """
    if model.task.position.token_per_output:
        raise UnsupportedModelError(
            f"pairs explains a label, a token or a value, and {model.name} answers with a span of the text"
        )
    removable = removable_for_task(model, a, units)
    # Units that the caller names are the first parts; behind them are parts that `verify` has as a control.
    parts = removable.parts if units is None else removable.parts[: removable.singles]
    is_masked = encoding.signal is None and masks(model)
    removable = removable._replace(
        parts=sorted(parts, key=lambda part: part.tokens),  # in the order of the text
        removed_by="masked" if is_masked else removable.removed_by,  # regions and moments have a way of their own
    )
    answers = TextAnswers(model, [encoding], [a], masked=is_masked, progress=VERIFYING)
    value_of, quantity = _value_of_text(model, a)
    # A text without any of its words still has an answer.
    return UnitAnswers(a, removable, answers, value_of, quantity, may_be_empty=True)


def _value_of_text(model: TaskModel, a: Attribution) -> tuple[Callable[[Answer], float], Quantity]:
    """Return a function of the explained quantity of an answer, and what that is.

    Of a label it is its log-odds, which of two labels are the difference of their logits, or its logit less the
    contrast's; of a token its log-probability; of a regression its value.

    Args:
        model: The model.
        a: The explanation of the text.

    Raises:
        UnsupportedModelError: If tokens are contrasted.
    """
    outputs = model.task.outputs
    target = a.target
    if outputs.kind == "value":
        return lambda answer: answer.value, "value"

    def log_probability(answer: Answer) -> float:
        return float(np.log(max(answer.value, LEAST_PROBABILITY)))

    def label_value(answer: Answer) -> float:
        if answer.logits is None:  # for the type: only answers about whole texts are read here
            raise ValueError("an answer of a text that is classified has logits")
        logits = answer.logits.double()  # (C,)
        if target.contrast_id is not None:
            return float(logits[target.id] - logits[target.contrast_id])
        probabilities: Any = outputs.probabilities(logits[None])  # (1, C)
        return float(log_odds(np.log(max(float(probabilities[0, target.id]), LEAST_PROBABILITY))))

    if model.task.position.pooled:  # the answer is about the whole text: it is a label
        return label_value, "log odds" if target.contrast_id is None else "logit less the contrast's"
    if target.contrast_id is not None:
        raise UnsupportedModelError("pairs explains a token by itself: leave out contrast=")
    return log_probability, "log-probability"


def answers_to_prompt(model: TaskModel, completed: Completed, a: Attribution, division: SourceSpec) -> UnitAnswers:
    """Return the log-probability of a completion with some sources of its prompt.

    Sources with the same words are one unit: they are left out together, wherever they stand.

    Args:
        model: A language model.
        completed: The prompt with its completion.
        a: Its explanation by the sources.
        division: How the prompt is divided into sources.
    """
    removable, source_spans = removable_sources(a.whole(), completed, division)
    unit_at: dict[Any, UnitScore] = {}  # by the tokens and places of the prompt that are left out
    for part, span in zip(removable.parts, source_spans.values(), strict=True):
        unit_at.setdefault((span.tokens, span.places), part)  # of sources with the same words the first
    removable = removable._replace(parts=list(unit_at.values()))
    ablations = Ablations(model, completed, list(source_spans.values()), VERIFYING)
    answers = answers_without(ablations, source_spans)
    may_be_empty = _has_empty_prompt(ablations)
    return UnitAnswers(a, removable, answers, lambda answer: answer.value, "log-probability", may_be_empty)


def _has_empty_prompt(ablations: Ablations) -> bool:
    """Return whether something of a prompt is left without all of its sources, such as a beginning-of-text token."""
    no_source_is_present = (False,) * len(ablations.sources)
    try:
        ablations.without(no_source_is_present)
    except InputError:
        return False
    return True
