"""Tasks that compare the logits of several texts: multiple choice and zero-shot classification."""

import operator
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedModel

from ..copies.clone import override_forward
from ..errors import InputError, TargetError
from ..inputs.encoding import Batch
from ..results.attribution import Attribution
from ..results.targets import Prediction
from .answers import Outputs
from .base import ModelClasses, Task
from .targets import All, Choice, TargetSpec, is_choice

Question = tuple[str, Sequence[str]]
"""A prompt and the choices that may follow it."""


class Alternatives(NamedTuple):
    """One input: pairs of texts, of which the model chooses one.

    Attributes:
        names: The names of the C pairs.
    """

    names: Sequence[str]
    pairs: list[tuple[str, str]]


class Comparing(Task):
    """The base of tasks that compare several pairs of texts for one input."""

    reads = "texts"
    independent = False
    """Whether each pair is right or wrong by itself, and not one of them right."""

    def alternatives(self, inputs: Any) -> tuple[list[Alternatives], bool]:
        """Return the pairs to compare for each input, and whether a single input was given.

        Raises:
            InputError: If an input cannot be read.
        """
        raise NotImplementedError

    def values(self, logits: Tensor) -> Tensor:
        """Return the logit of each pair, (C,), from the head's outputs, (C, outputs)."""
        return logits[:, 0].float()

    def pair_probabilities(self, values: Tensor) -> Tensor:
        """Return the probability of each pair, (C,), from its logit."""
        return values.softmax(-1)

    def pair_options(self) -> dict[str, Any]:
        """Return the target and the contrast for explaining one pair, as options."""
        return {"target": None}

    def chosen(self, names: Sequence[str], values: Tensor, spec: TargetSpec, contrast: Choice | None) -> int:
        """Return the index of the pair to explain: the one named, or the one with the highest logit."""
        if contrast is not None or isinstance(spec, All) or not (spec is None or is_choice(spec)):
            raise TargetError("each choice has tokens of its own: explain one at a time, without a contrast")
        if spec is None:
            return int(values.argmax())
        if isinstance(spec, str):
            if spec not in names:
                raise TargetError(f"no choice {spec!r} among {', '.join(map(repr, names))}")
            return list(names).index(spec)
        index = operator.index(spec)
        if not 0 <= index < len(names):
            raise TargetError(f"there is no choice {index}; they are counted from 0 to {len(names) - 1}")
        return index

    def answer(self, names: Sequence[str], values: Tensor, index: int) -> tuple[Prediction, float, Hashable]:
        """Return the answer among all pairs, the probability of one of them, and what tells answers apart.

        Where pairs do not exclude each other, the answer is that of the one: whether its probability reaches a half.
        """
        probabilities = self.pair_probabilities(values)  # (C,)
        best = index if self.independent else int(values.argmax())
        prediction = Prediction(names[best], best, float(values[best]), float(probabilities[best]))
        probability = float(probabilities[index])
        return prediction, probability, probability >= 0.5 if self.independent else best

    def compared(self, result: Attribution, names: Sequence[str], values: Tensor, index: int) -> dict[str, Any]:
        """Return fields for the result of one pair: the prediction among all pairs, and which pair is explained."""
        prediction, *_ = self.answer(names, values, int(values.argmax()))
        target = result.target._replace(kind="label", name=names[index], id=index, position=None)
        return {"predictions": (prediction,), "targets": (target,)}


class MultipleChoice(Comparing):
    """Multiple choice: the model reads the prompt once with each choice."""

    name = "multiple-choice"
    models = ModelClasses(
        mapping="MODEL_FOR_MULTIPLE_CHOICE_MAPPING_NAMES",
        ending="ForMultipleChoice",
        auto_class="AutoModelForMultipleChoice",
    )

    outputs = Outputs(("choice",))

    def adapt(self, module: PreTrainedModel) -> bool:
        """Make a copy read every row as a question with one choice."""
        override_forward(module, lambda original, **inputs: original(**_with_choice_axis(inputs)))
        super().adapt(module)
        return True

    def caller_inputs(self, inputs: dict[str, Tensor], batch: Batch, device: torch.device) -> dict[str, Tensor]:
        """Return the inputs of one text as one choice, (B, 1, T)."""
        return _with_choice_axis(inputs)

    def alternatives(self, inputs: Any) -> tuple[list[Alternatives], bool]:
        """Return the pairs (prompt, choice) of each question."""
        single = isinstance(inputs, str | tuple)
        items = [inputs] if single else list(inputs) if isinstance(inputs, Iterable) else [inputs]
        questions = []
        for index, question in enumerate(items):
            is_question = isinstance(question, tuple) and len(question) == 2 and isinstance(question[0], str)
            choices = question[1] if is_question else None
            if isinstance(choices, str) or not isinstance(choices, Sequence) or len(choices) < 2:
                raise InputError(f"input {index} must be (prompt, [choices]) with two choices or more")
            questions.append(Alternatives(choices, [(question[0], choice) for choice in choices]))
        return questions, single


def _with_choice_axis(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return inputs of (B, T) as those of one choice each, (B, 1, T)."""
    return {
        name: value[:, None] if isinstance(value, Tensor) and value.ndim > 1 else value
        for name, value in inputs.items()
    }
