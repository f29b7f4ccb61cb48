"""What tells one model from another."""

import pytest
import torch

from normxlogit import Explainer
from normxlogit.long_runs.model_identity import identity_of
from tests import tiny


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_a_copy_is_the_same_and_another_precision_is_not(family):
    kind = "CausalLM" if family == "llama" else "SequenceClassification"

    def identity(model):
        return identity_of(Explainer(model, tiny.tokenizer_for(family))._model)

    first = identity(tiny.model(family, kind))
    assert first.answer
    assert first.is_same(identity(tiny.model(family, kind)))
    assert first.key == identity(tiny.model(family, kind)).key
    assert not first.is_same(identity(tiny.model(family, kind).to(torch.bfloat16)))
    with torch.no_grad():
        changed = tiny.model(family, kind)
        next(changed.parameters()).view(-1)[-1] += 1e-3
    assert not first.is_same(identity(changed))
