"""What tells one model from another."""

import pytest
import transformers

from normxlogit import Explainer
from normxlogit.model.model_digest import model_digest
from tests import tiny


def test_a_hook_may_name_a_class_of_tensors_that_are_made_of_others():
    kind = pytest.importorskip("torch.distributed.tensor").DTensor
    model = tiny.model("bert")
    model.bert.encoder.layer[0].register_forward_hook(
        lambda module, args, output: None if isinstance(output, kind) else output
    )
    assert model_digest(Explainer(model, tiny.tokenizer_for("bert"))._model)


@pytest.mark.parametrize(
    "settings",
    [{"max_length": 8}, {"function_to_apply": "sigmoid"}, {"add_special_tokens": False}, {"truncation": True}],
)
def test_the_settings_of_a_pipeline_are_part_of_it(settings) -> None:
    model, tokenizer = tiny.model("bert", num_labels=3), tiny.tokenizer_for("bert")

    def digest(**options) -> str:
        made = transformers.pipeline("text-classification", model=model, tokenizer=tokenizer, **options)
        return model_digest(Explainer(made)._model)

    assert (digest(**settings) == digest()) == ("truncation" in settings)  # which is how texts are read anyway
    assert digest(**settings) == digest(**settings)
