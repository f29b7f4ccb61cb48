"""What a caller may ask of an explanation, how it may be written, and what is refused."""

import numpy as np
import pytest
import torch

from normxlogit import ALL, Explainer
from tests import tiny
from tests.contract.compare import close
from tests.tiny import explainer

LABELS = {0: "bad", 1: "good", 2: "so so"}


def of_three(labels=LABELS):
    return explainer(num_labels=3, id2label=labels)


@pytest.mark.parametrize(
    "integer", [np.int64, np.uint8, np.array, torch.tensor], ids=["int64", "uint8", "0-d array", "0-d tensor"]
)
def test_any_integer_is_an_index_or_a_layer(integer):
    e = of_three()
    expected = e(tiny.TEXTS[0], target=2, contrast=1, layers=2)
    found = e(tiny.TEXTS[0], target=integer(2), contrast=integer(1), layers=integer(2))
    assert found == expected
    assert [type(i) for i in (found.target.id, found.target.contrast_id, *found.layers)] == [int] * 3
    several = e(tiny.TEXTS[0], target=[integer(2), integer(0)], layers=[integer(3), integer(1)])
    assert several == e(tiny.TEXTS[0], target=[2, 0], layers=[3, 1])
    assert e(tiny.TEXTS[:2], targets=[integer(2), integer(0)]) == e(tiny.TEXTS[:2], targets=[2, 0])


@pytest.mark.parametrize("name", ["all", "predicted", "1", "none"])
def test_a_label_may_have_any_name(name):
    e = of_three({0: "bad", 1: "good", 2: name})
    found = e(tiny.TEXTS, target=name)
    assert [a.target.id for a in found] == [2] * 3
    assert [a.target.name for a in found] == [name] * 3
    assert found[0].scores.ndim == 1


@pytest.mark.parametrize(("family", "kind"), [("bert", "SequenceClassification"), ("gpt2", "CausalLM")])
def test_targets_are_one_call_each(family, kind):
    model, made = tiny.model(family, kind), tiny.tokenizer_for(family)
    chosen = [1, "LABEL_0", "LABEL_1"] if kind == "SequenceClassification" else ["cat", tiny.VOCABULARY["good"], "is"]
    e = Explainer(model, made, batch_tokens=20)  # longest first, in batches of their own: the order must be kept
    together = e(tiny.TEXTS, targets=chosen, layers=ALL)
    for text, choice, found in zip(tiny.TEXTS, chosen, together, strict=True):
        alone = e(text, target=choice, layers=ALL)
        close(found.scores, alone.scores)
        assert found.target == alone.target
        assert found.scores.ndim == 2, "one target is no axis"
