"""Modules whose output is held: found in the first pass, detached in the next, with the same scores."""

import numpy as np
import pytest

from normxlogit import Explainer
from normxlogit.models.frozen_model import FrozenModel
from tests import tiny

TEXTS = ["the movie is not good", "bad", "a great film with charm and wit , but maybe mediocre plot !"]
HELD = {"bert": {"query", "key"}, "llama": {"q_proj", "k_proj", "gate_proj", "act_fn"}, "albert": {"query", "key"}}


@pytest.mark.parametrize("family", HELD)
@pytest.mark.parametrize("method", ["frozen-gradient", "frozen-gradient:read_at=0"])
def test_what_is_held_after_the_first_pass_changes_no_score(family, method):
    model, tokenizer = tiny.model(family), tiny.tokenizer_for(family)
    explainer = Explainer(model, tokenizer)
    first = {text: Explainer(model, tokenizer)(text, method=method).scores for text in TEXTS}
    for text in [*TEXTS, *TEXTS]:
        np.testing.assert_allclose(explainer(text, method=method).scores, first[text], rtol=1e-5, atol=1e-6)
    (held,) = FrozenModel.of(explainer._model)._passes.held_modules._paths.values()
    assert {path.rpartition(".")[2] for path in held} == HELD[family]
