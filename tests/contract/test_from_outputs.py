"""A forward pass that the caller has run: of this model, of these inputs, whole."""

import pytest
import torch
from transformers import BatchEncoding

from normxlogit import ALL, Explainer, HeadMismatchError, InputError
from tests import tiny

from .compare import close

KINDS = [
    ("bert", "SequenceClassification"),
    ("gpt2", "CausalLM"),
    ("llama", "SequenceClassification"),
    ("roberta", "MaskedLM"),
    ("xlnet", "SequenceClassification"),
    ("mamba", "CausalLM"),
    ("bert", "TokenClassification"),
]


def passed(family, kind, texts=None):
    model, tokenizer = tiny.model(family, kind), tiny.tokenizer_for(family)
    texts = texts or ([tiny.MASKED, "a [MASK] ."] if kind == "MaskedLM" else tiny.TEXTS)
    inputs = tokenizer(texts, return_tensors="pt", padding=True)
    with torch.no_grad():
        outputs = model(**inputs, output_hidden_states=True)
    return Explainer(model, tokenizer), inputs, outputs


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(("family", "kind"), [("bert", "SequenceClassification"), ("llama", "CausalLM")])
def test_a_given_pass_gives_the_scores_of_a_pass_of_its_own(family, kind, side):
    model, tokenizer = tiny.model(family, kind), tiny.tokenizer_for(family)
    e = Explainer(model, tokenizer)
    expected = e(tiny.TEXTS, layers=ALL, method="normxlogit")
    inputs = tokenizer(tiny.TEXTS, return_tensors="pt", padding=True, padding_side=side)
    if side == "left" and family == "bert":
        pytest.skip("a model of absolute positions reads other positions when padded left")
    with torch.no_grad():
        outputs = model(**inputs, output_hidden_states=True)
    results = e.from_outputs(inputs, outputs, layers=ALL)
    for a, b in zip(results, expected, strict=True):
        close(a.scores, b.scores, 1e-4)
        assert a.tokens == b.tokens
        assert a.prediction.label == b.prediction.label
        assert a.target.position == b.target.position


def test_outputs_of_other_inputs_are_refused():
    model, tokenizer = tiny.model("bert"), tiny.tokenizer_for("bert")
    e = Explainer(model, tokenizer)
    inputs = tokenizer(tiny.TEXTS[:1], return_tensors="pt")
    with torch.no_grad():
        outputs = model(**inputs, output_hidden_states=True)
        plain = model(**inputs)
    with pytest.raises(InputError, match="output_hidden_states=True"):
        e.from_outputs(inputs, plain)
    with pytest.raises(InputError, match="shape"):
        e.from_outputs(tokenizer(tiny.TEXTS[1:2], return_tensors="pt"), outputs)
    outputs["logits"] = outputs.logits + 1
    with pytest.raises(HeadMismatchError, match="same inputs"):
        e.from_outputs(inputs, outputs)


@pytest.mark.parametrize(("family", "kind"), KINDS)
def test_swapped_ids_are_seen(family, kind):
    explainer, inputs, outputs = passed(family, kind)
    ids = inputs["input_ids"].clone()
    place = int(inputs["attention_mask"][0].nonzero()[1])
    ids[0, place] = tiny.VOCABULARY["actor"]
    changed = BatchEncoding({**inputs, "input_ids": ids})
    explainer.from_outputs(inputs, outputs)
    with pytest.raises((InputError, HeadMismatchError), match="of the same inputs"):
        explainer.from_outputs(changed, outputs)


def test_rows_in_another_order_are_seen():
    explainer, inputs, outputs = passed("bert", "SequenceClassification")
    turned = {name: value.flip(0) for name, value in inputs.items()}
    with pytest.raises(InputError, match="in the same order"):
        explainer.from_outputs(turned, outputs)


@pytest.mark.parametrize(("family", "kind"), KINDS)
@pytest.mark.parametrize("part", [slice(1, None), slice(None, -1), slice(None, None, 2), slice(-1, None)])
def test_a_cut_list_of_hidden_states_is_seen(family, kind, part):
    explainer, inputs, outputs = passed(family, kind)
    outputs["hidden_states"] = outputs.hidden_states[part]
    with pytest.raises(InputError, match=r"hold \d hidden states, and the model gives \d"):
        explainer.from_outputs(inputs, outputs, layers=ALL)


def test_nan_is_seen_and_padding_is_not():
    explainer, inputs, outputs = passed("bert", "SequenceClassification")
    whole = outputs.logits.clone()
    outputs["logits"] = torch.full_like(whole, torch.nan)
    with pytest.raises(InputError, match="NaN"):
        explainer.from_outputs(inputs, outputs)
    outputs["logits"] = whole.clone()
    outputs.logits[0, 0] = torch.inf
    with pytest.raises(HeadMismatchError, match="differ"):
        explainer.from_outputs(inputs, outputs)
    outputs["logits"] = whole
    states = [state.clone() for state in outputs.hidden_states]
    real = int(inputs["attention_mask"][1].sum())
    states[-1][1, real:] = torch.nan
    outputs["hidden_states"] = tuple(states)
    assert len(explainer.from_outputs(inputs, outputs)) == len(tiny.TEXTS)
    states[-1][1, real - 1] = torch.nan
    with pytest.raises(InputError, match="NaN"):
        explainer.from_outputs(inputs, outputs)


def test_logits_of_fewer_texts_or_tokens_are_seen():
    explainer, inputs, outputs = passed("bert", "SequenceClassification")
    outputs["logits"] = outputs.logits[:1]
    with pytest.raises(InputError, match=r"of shape \(1, 2\)"):
        explainer.from_outputs(inputs, outputs)
    explainer, inputs, outputs = passed("gpt2", "CausalLM")
    outputs["logits"] = outputs.logits[:, -1:]
    with pytest.raises(InputError, match="of shape"):
        explainer.from_outputs(inputs, outputs)


def test_outputs_that_are_none():
    explainer, inputs, outputs = passed("bert", "SequenceClassification")
    for wrong in (outputs.to_tuple(), {}, {"logits": outputs.logits}):
        with pytest.raises(InputError, match="output_hidden_states=True"):
            explainer.from_outputs(inputs, wrong)
