"""What tells one model from another."""

import pytest

from normxlogit import Explainer
from normxlogit.models.model_digest import model_digest
from tests import tiny


def test_a_hook_may_name_a_class_of_tensors_that_are_made_of_others():
    kind = pytest.importorskip("torch.distributed.tensor").DTensor
    model = tiny.model("bert")
    model.bert.encoder.layer[0].register_forward_hook(
        lambda module, args, output: None if isinstance(output, kind) else output
    )
    assert model_digest(Explainer(model, tiny.tokenizer_for("bert"))._model)
