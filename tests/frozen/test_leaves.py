"""The contributions of all leaves add up to the answer; of wrong rules they do not."""

import pytest

from normxlogit import Explainer
from normxlogit.frozen import rules
from tests import tiny
from tests.frozen.leaves import LOOKED_UP, contributions_of_leaves

TEXT = "the movie is never bad"
CLASSIFIERS = ("bert", "albert", "roberta", "deberta-v2", "xlnet", "distilbert", "t5")
WRITERS = ("gpt2", "opt", "bloom", "llama", "gemma2", "qwen2", "mamba")
MODELS = {**dict.fromkeys(CLASSIFIERS, "SequenceClassification"), **dict.fromkeys(WRITERS, "CausalLM")}


def shares_of(family, kind):
    model = tiny.model(family, kind)
    inputs = tiny.tokenizer_for(family)(TEXT, return_tensors="pt")
    if kind == "CausalLM":
        return model, contributions_of_leaves(model, {**inputs, "use_cache": False}, lambda out: out.logits[0, -1, 7])
    return model, contributions_of_leaves(model, inputs, lambda out: out.logits[0, 1])


def difference(answer, shares):
    return abs(answer - sum(shares.values())) / max(1.0, sum(map(abs, shares.values())))


@pytest.mark.parametrize(("family", "kind"), MODELS.items())
def test_what_all_leaves_contribute_is_the_answer(family, kind):
    _, (answer, shares) = shares_of(family, kind)
    assert difference(answer, shares) < 1e-6


WRONG = [
    *(("bert", name) for name in ("NativeLayerNorm", "Gelu", "Tanh", "ScaledDotProductFlashAttentionForCpu")),
    *(("gpt2", "NativeLayerNorm"), ("mamba", "Silu"), ("bloom", "GeLUFunctionBackward")),
]


@pytest.mark.parametrize(("family", "name"), WRONG)
def test_without_a_rule_they_are_not(family, name, monkeypatch):
    monkeypatch.setitem(rules.RULES, name, rules.RULES["Add"])
    _, (answer, shares) = shares_of(family, MODELS[family])
    assert difference(answer, shares) > 1e-4


@pytest.mark.parametrize("family", ["bert", "distilbert", "t5"])
def test_the_bias_of_a_result_is_what_its_leaves_contribute(family):
    """Not what is missing: the same parts, found in another way."""
    model, (answer, shares) = shares_of(family, "SequenceClassification")
    result = Explainer(model, tiny.tokenizer_for(family))(
        TEXT, target=1, method="frozen-gradient:read_at=0,sink_threshold=none"
    )
    words = shares[f"{LOOKED_UP} 0"]
    assert float(result.scores.sum()) == pytest.approx(words, abs=1e-4)
    assert float(result.bias) == pytest.approx(answer - words, abs=1e-4)
    assert float(result.bias) == pytest.approx(sum(v for n, v in shares.items() if n != f"{LOOKED_UP} 0"), abs=1e-4)
