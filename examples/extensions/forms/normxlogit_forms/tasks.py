"""A text task with an input and outputs of its own: how urgent a form is, which has fields by name."""

from collections.abc import Mapping
from typing import Any

from normxlogit import InputError
from normxlogit.inputs.encoding import Encoding
from normxlogit.tasks.classification import Classification
from normxlogit.tasks.task_outputs import Outputs
from normxlogit_forms import URGENCY


class FormUrgency(Classification):
    """How urgent a form is: `explainer({"title": "Lamp", "remarks": "It burns"})`."""

    name = URGENCY.name
    models = URGENCY.models
    outputs = Outputs(labels=("can wait", "urgent"))

    def encode(self, model: Any, inputs: Any, **options: Any) -> tuple[list[Encoding], bool]:
        """Encode one form or a list of them, each as a text with a line for each field."""
        single = isinstance(inputs, Mapping)
        texts = [text_of(form) for form in ([inputs] if single else inputs)]
        encodings, _ = super().encode(model, texts, **options)
        return encodings, single


def text_of(form: Any) -> str:
    """Return a form as a text with a line for each field."""
    if not isinstance(form, Mapping):
        raise InputError(f"expected a form, fields by name, got a {type(form).__name__}")
    return "\n".join(f"{name}: {value}" for name, value in form.items())
