"""A forward pass that the caller has run: of this model, of these inputs, whole."""

import pytest
import torch
from transformers import BatchEncoding

from normxlogit import ALL, Explainer, HeadMismatchError, InputError
from tests import tiny
from tests.contract.compare import close, refused

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


@pytest.mark.parametrize(("family", "kind"), KINDS)
@pytest.mark.parametrize("part", [slice(1, None), slice(None, -1), slice(None, None, 2), slice(-1, None)])
def test_a_cut_list_of_hidden_states_is_seen(family, kind, part):
    explainer, inputs, outputs = passed(family, kind)
    outputs["hidden_states"] = outputs.hidden_states[part]
    with pytest.raises(InputError, match=r"hold \d hidden states, and the model gives \d"):
        explainer.from_outputs(inputs, outputs, layers=ALL)


def test_nan_in_states_is_seen_and_in_padding_is_not():
    explainer, inputs, outputs = passed("bert", "SequenceClassification")
    states = [state.clone() for state in outputs.hidden_states]
    real = int(inputs["attention_mask"][1].sum())
    states[-1][1, real:] = torch.nan
    outputs["hidden_states"] = tuple(states)
    assert len(explainer.from_outputs(inputs, outputs)) == len(tiny.TEXTS)
    states[-1][1, real - 1] = torch.nan
    refused(InputError, "NaN", lambda: explainer.from_outputs(inputs, outputs))


NO_STATES = InputError, "output_hidden_states=True"
CHANGES = {
    "as a tuple": ("bert", lambda i, o: (i, o.to_tuple()), *NO_STATES),
    "nothing": ("bert", lambda i, o: (i, {}), *NO_STATES),
    "without states": ("bert", lambda i, o: (i, {"logits": o.logits}), *NO_STATES),
    "of fewer tokens": ("bert", lambda i, o: ({n: v[:, :-1] for n, v in i.items()}, o), InputError, "shape"),
    "in another order": ("bert", lambda i, o: ({n: v.flip(0) for n, v in i.items()}, o), InputError, "same order"),
    "other logits": ("bert", lambda i, o: (i, {**o, "logits": o.logits + 1}), HeadMismatchError, "same inputs"),
    "no number": ("bert", lambda i, o: (i, {**o, "logits": o.logits * torch.nan}), InputError, "NaN"),
    "infinite": ("bert", lambda i, o: (i, {**o, "logits": first_infinite(o.logits)}), HeadMismatchError, "differ"),
    "logits of a text": ("bert", lambda i, o: (i, {**o, "logits": o.logits[:1]}), InputError, r"of shape \(1, 2\)"),
    "logits of a token": ("gpt2", lambda i, o: (i, {**o, "logits": o.logits[:, -1:]}), InputError, "of shape"),
}


def first_infinite(logits):
    changed = logits.clone()
    changed[0, 0] = torch.inf
    return changed


@pytest.mark.parametrize("name", CHANGES)
def test_outputs_that_are_not_of_these_inputs_are_refused(name):
    family, change, error, message = CHANGES[name]
    explainer, inputs, outputs = passed(family, "SequenceClassification" if family == "bert" else "CausalLM")
    refused(error, message, lambda: explainer.from_outputs(*change(inputs, outputs)))
