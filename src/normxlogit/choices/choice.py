"""Multiple choice: the model reads the prompt once with each choice."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from ..copies.clone import override_forward
from ..errors import InputError
from ..inputs.encoding import Batch
from ..tasks.answers import Outputs
from ..tasks.base import ModelClasses
from .comparing import Alternatives, Comparing


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
