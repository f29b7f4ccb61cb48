import pytest
import torch
from torch import nn

from normxlogit import Explainer
from normxlogit.model.input_limits import position_limit
from normxlogit.model.model_inputs import filler_id
from tests import tiny
from tools.survey.base import build

CLASSIFIER, MASKED, CAUSAL = "sequence-classification", "masked-lm", "causal-lm"
BOUNDED = {
    CLASSIFIER: "bert roberta mpnet ibert canine layoutlmv3 perceiver yoso mra nystromformer openai-gpt biogpt ctrl",
    MASKED: "mbart xlm",
    CAUSAL: "opt bart pegasus whisper codegen gpt2 reformer",
}
"""In RoBERTa positions begin after the padding row."""


def pairs(names):
    return [(task, family) for task, families in names.items() for family in families.split()]


def reads(model, count):
    ids = torch.full((1, count), 7)
    ids[0, -1] = 3
    try:
        with torch.inference_mode():
            model(input_ids=ids, attention_mask=torch.ones_like(ids))
    except (IndexError, RuntimeError, ValueError):
        return False
    return True


@pytest.mark.parametrize(("task", "family"), pairs(BOUNDED))
def test_the_limit_is_the_last_length_that_works(task, family):
    model = build(task, family)
    limit = position_limit(model)
    assert limit is not None
    assert reads(model, limit)
    assert not reads(model, limit + 1)


def test_the_smallest_of_the_limits_counts():
    model, tokenizer = tiny.model("bert"), tiny.tokenizer_for("bert")
    for declared, wanted in ((12, 12), (40, 40), (100, 40), (10**30, 40)):
        tokenizer.model_max_length = declared
        assert Explainer(model, tokenizer)._model.encoder.limit == wanted
    assert position_limit(model) == 40
    tokenizer.model_max_length = 100
    assert Explainer(tiny.model("llama"), tokenizer)._model.encoder.limit == 100
    assert position_limit(nn.Linear(2, 2)) is None


@pytest.mark.parametrize(("eos", "pad", "filler"), [(3, 0, 3), (3, 3, 0), (None, 0, 1), ([4, 5], 0, 4), ([0], 0, 1)])
def test_the_token_of_one_token_sequences_is_no_padding(eos, pad, filler):
    config = tiny.model("llama").config
    config.eos_token_id = eos
    assert filler_id(config, pad) == filler
