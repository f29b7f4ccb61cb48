"""A task with an input of its own: the classification of forms, which are fields by name."""

from collections.abc import Mapping
from typing import Any

from normxlogit import InputError
from normxlogit.inputs.encoding import Encoding
from normxlogit.tasks.classification import Classification
from normxlogit_example import FORMS


class FormClassification(Classification):
    """Classification of forms: `explainer({"title": "Lamp", "remarks": "It broke"})`."""

    name = FORMS.name
    models = FORMS.models

    def encode(self, model: Any, inputs: Any, **options: Any) -> tuple[list[Encoding], bool]:
        """Encode one form or a list of them, each as a text with a line for each field."""
        single = isinstance(inputs, Mapping)
        forms = [inputs] if single else list(inputs)
        for form in forms:
            if not isinstance(form, Mapping):
                raise InputError(f"expected a form, fields by name, got a {type(form).__name__}")
        texts = ["\n".join(f"{name}: {value}" for name, value in form.items()) for form in forms]
        return super().encode(model, texts, **options)[0], single
