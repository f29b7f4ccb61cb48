"""The same scores alone or in a batch, first or after others, padded left or right, eager or SDPA."""

import copy
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from normxlogit import ALL, Explainer, MethodError, NormXLogitError, UnsupportedModelError
from tests import tiny
from tests.tiny import explainer

from .cases import CASES, Case
from .compare import CHEAP, close, every_method
from .texts import batches

EVERYTHING = (
    [(f, "SequenceClassification") for f in tiny.CLASSIFIERS]
    + [(f, "MaskedLM") for f in tiny.MASKED_LMS]
    + [(f, "CausalLM") for f in tiny.CAUSAL_LMS]
)


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama", "opt"])
def test_encoded_left_or_right_padded_equals_text(family):
    e = explainer(family)
    expected = e(tiny.TEXTS)
    for side in ("left", "right"):
        encoded = tiny.tokenizer_for(family)(tiny.TEXTS, return_tensors="pt", padding=True, padding_side=side)
        for a, b in zip(e(encoded), expected, strict=True):
            close(a.scores, b.scores)
            assert a.tokens == b.tokens
            assert a.offsets == b.offsets
            assert a.text is None


def outcome_of(explain):
    """Return results, or the type of the error with which a method refuses a model."""
    try:
        return explain()
    except (UnsupportedModelError, MethodError) as error:
        return type(error)


@pytest.mark.parametrize("layers", [None, ALL], ids=["the answer", "all layers"])
@every_method
@pytest.mark.parametrize(("family", "kind"), [
    ("bert", "SequenceClassification"), ("roberta", "MaskedLM"), ("xlnet", "SequenceClassification"),
    ("llama", "CausalLM"),
])  # fmt: skip
def test_every_method_scores_a_text_alone_as_in_a_batch_of_any_size(family, kind, method, layers):
    texts = [f"{t} [MASK]" for t in tiny.TEXTS] if kind == "MaskedLM" else tiny.TEXTS
    options = {"method": method, "layers": layers, "target": 7 if kind != "SequenceClassification" else 0}
    model, tokenizer = tiny.model(family, kind), tiny.tokenizer_for(family)
    single = Explainer(model, tokenizer)
    alone = [outcome_of(partial(single, text, **options)) for text in texts]
    for explain in (single, Explainer(model, tokenizer, batch_tokens=30)):
        together = outcome_of(partial(explain, texts, **options))
        if isinstance(together, type):
            assert {together} == set(alone), "refused, alone and in a batch"
            return
        for result, expected in zip(together, alone, strict=True):
            close(result.scores, expected.scores, 1e-3 if method in CHEAP.values() else 1e-4)
    assert any(np.any(result.scores != 0) for result in alone)


@pytest.mark.parametrize(("family", "kind"), EVERYTHING)
def test_a_first_text_is_scored_as_one_after_others(family, kind):
    texts = [f"{t} [MASK]" for t in tiny.TEXTS] if kind == "MaskedLM" else tiny.TEXTS
    used, first = explainer(family, kind), {text: explainer(family, kind)(text).scores for text in texts}
    for text in [*texts, *reversed(texts)]:
        close(used(text).scores, first[text])


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(("family", "kind"), [("bert", "SequenceClassification"), ("xlnet", "SequenceClassification")]
                         + [(family, "CausalLM") for family in tiny.CAUSAL_LMS])  # fmt: skip
def test_the_padding_side_of_the_tokenizer_does_not_matter(family, kind, side):
    tokenizer = tiny.tokenizer_for(family)
    tokenizer.padding_side = side
    e, single = Explainer(tiny.model(family, kind), tokenizer), explainer(family, kind)
    for text, result in zip(tiny.TEXTS, e(tiny.TEXTS), strict=True):
        close(result.scores, single(text).scores)
    assert tokenizer.padding_side == side


@pytest.mark.parametrize("family", ["gpt2", "opt", "llama", "qwen2"])
def test_prompts_generated_together_are_explained_as_each_alone(family):
    e = explainer(family, "CausalLM")
    single, prompts = explainer(family, "CausalLM"), ["the cat sat on", "bad", "a great film with charm and"]
    for prompt, result in zip(prompts, e.generate(prompts, max_new_tokens=3), strict=True):
        alone = single.generate(prompt, max_new_tokens=3)
        assert result.token_ids == alone.token_ids
        close(result.scores, alone.scores, 1e-4)


@every_method
@pytest.mark.parametrize(("family", "kind"), [("bert", "SequenceClassification"), ("llama", "CausalLM"),
                                              ("gpt2", "CausalLM")])  # fmt: skip
def test_eager_equals_sdpa(family, kind, method):
    results = []
    for attention in ("eager", "sdpa"):
        model = tiny.model(family, kind, attn_implementation=attention)
        options = {"method": method, "layers": ALL if method == "normxlogit" else None}
        results.append(outcome_of(partial(Explainer(model, tiny.tokenizer_for(family)), tiny.TEXTS, **options)))
    if isinstance(results[0], type):
        assert results[0] == results[1], "refused with either"
        return
    for a, b in zip(*results, strict=True):
        close(a.scores, b.scores, 1e-3 if method in CHEAP.values() else 1e-4)


@pytest.mark.parametrize("method", ["normxlogit", "frozen-gradient"])
@pytest.mark.parametrize(("family", "kind"), [("bert", "SequenceClassification"), ("roberta", "SequenceClassification"),
                                              ("llama", "CausalLM")])  # fmt: skip
def test_bfloat16_agrees_in_rank(family, kind, method):
    scipy_stats = pytest.importorskip("scipy.stats")
    # Larger weights, for no score to be as small as the rounding of a logit in bfloat16.
    model, tokenizer = tiny.model(family, kind, scale=4.0), tiny.tokenizer_for(family)
    texts = tiny.TEXTS * 2 if len(tiny.TEXTS) < 6 else tiny.TEXTS
    full = Explainer(model, tokenizer)(texts, target=0, method=method)
    half = Explainer(copy.deepcopy(model).bfloat16(), tokenizer)(texts, target=0, method=method)
    assert half[0].scores.dtype == np.float32
    scores = [np.concatenate([a.scores for a in results]) for results in (full, half)]  # over all texts: few are ties
    assert scipy_stats.spearmanr(*scores).statistic > 0.99


def outcome(case: Case, inputs, **options):
    """Return what comes of inputs: results, or an error of the library; an error of any other type is a fault."""
    try:
        return case.explainer(inputs, **options)
    except NormXLogitError as error:
        return error


def agree(one, other):
    """Refuse two results of one text that differ in more than rounding."""
    for name in ("text", "text_pair", "tokens", "offsets", "notes", "target"):
        assert getattr(one, name) == getattr(other, name)
    assert one.prediction.value == pytest.approx(other.prediction.value, rel=1e-4, abs=1e-4)
    close(one.scores, other.scores, 1e-4)


@pytest.mark.parametrize("case", CASES, ids=str)
@given(texts=batches, data=st.data())
def test_alone_in_a_batch_and_reordered(case, texts, data):
    inputs = [case.input_of(text) for text in texts]
    options = {} if case.head in ("QuestionAnswering", "MultipleChoice") else {"target": 0}
    alone = [outcome(case, one, **options) for one in inputs]
    wrong = [place for place, result in enumerate(alone) if isinstance(result, Exception)]
    if wrong:
        together = outcome(case, inputs, **options)
        assert type(together) in {type(alone[place]) for place in wrong}
    good = [place for place in range(len(inputs)) if place not in wrong]
    order = data.draw(st.permutations(good))
    for places in (good, order):
        together = case.explainer([inputs[place] for place in places], **options)
        for place, result in zip(places, together, strict=True):
            agree(result, alone[place])
