"""What scores sum to: logits for the frozen network, a difference for integrated gradients.

The logits are those of the caller's own model, run here on the tokens of the result. Scores and bias add up to what is
explained wherever they are taken; a result without a bias does not claim so.
"""

import numpy as np
import pytest
import torch

import normxlogit
from normxlogit import ALL, Explainer
from tests import tiny

from .compare import present, total

TEXT = "the movie is not good but a great film"
LONG = " ".join(f"{TEXT} with charm and wit , maybe mediocre plot".split() * 8)
LIMIT = 40
FROZEN = "frozen-gradient"
CLOSE = {"rtol": 1e-3, "atol": 1e-3}
CLOSER = {"rtol": 1e-4, "atol": 1e-4}
FAMILIES = [
    *((family, "SequenceClassification") for family in ("bert", "modernbert", "gpt2", "llama", "deberta-v2", "xlnet")),
    *(("bert", "TokenClassification"), ("roberta", "MaskedLM"), ("llama", "CausalLM"), ("gpt2", "CausalLM")),
]


@pytest.fixture(scope="module")
def model():
    return tiny.model("bert", num_labels=3)


@pytest.fixture(scope="module")
def explainer(model):
    return Explainer(model, tiny.tokenizer_for("bert"))


def build(family, kind="SequenceClassification"):
    model = tiny.model(family, kind)
    return model, Explainer(model, tiny.tokenizer_for(family))


def logits_of_result(model, result):
    """Run the caller's model on the tokens of a result: its logits (C,) where the target is read."""
    logits = tiny.logits_of(model, result.token_ids)
    return logits.numpy() if logits.ndim == 1 else logits[result.targets[0].position].numpy()


def explained(logits, kind):
    """What is explained of a text's logits, (C,): those of a vocabulary minus their mean."""
    return logits - logits.mean() if kind in ("MaskedLM", "CausalLM") else logits


def logits_of(model, text):
    with torch.inference_mode():
        return model(**tiny.tokenizer_for("bert")(text, return_tensors="pt")).logits[0].numpy()


def windowed_logits(model, text):
    """The mean over windows of the model's length, neighbours of which share a quarter of the text in each."""
    ids = tiny.tokenizer_for("bert")(text, truncation=False, verbose=False).input_ids
    first, body, last = ids[:1], ids[1:-1], ids[-1:]
    room = LIMIT - 2
    starts = [*range(0, len(body) - room, room - room // 4), len(body) - room]
    with torch.inference_mode():
        windows = [torch.tensor([first + body[start : start + room] + last]) for start in starts]
        return torch.cat([model(window).logits for window in windows]).mean(0).numpy()


ADDING = [
    *(
        (f"{FROZEN}{settings}", family, kind)
        for settings in ("", ":read_at=1", ":read_at=all", ":read_at=middle")
        for family, kind in FAMILIES
    ),
    *(
        (method, family, kind)
        for method in present("kernel-shap:samples=600", "integrated-gradients:steps=8")
        for family, kind in (("bert", "MaskedLM"), ("gpt2", "CausalLM"))
    ),
]


@pytest.mark.parametrize(("method", "family", "kind"), ADDING)
def test_scores_sink_and_bias_are_the_logit_less_the_mean_of_a_vocabulary(method, family, kind):
    model, explainer = build(family, kind)
    result = explainer(tiny.MASKED, method=method, target=[0, 1])
    np.testing.assert_allclose(total(result), explained(logits_of_result(model, result), kind)[:2], **CLOSER)


@pytest.mark.parametrize("family", ["llama", "gpt2", "qwen2", "opt"])
@pytest.mark.parametrize("read_at", [0, "middle"])
def test_a_completion_sums_to_each_logit_less_the_mean_of_the_vocabulary(family, read_at):
    model, explainer = build(family, "CausalLM")
    result = explainer.explain_completion("the cat sat", " on the mat", method=f"frozen-gradient:read_at={read_at}")
    logits = tiny.logits_of(model, result.token_ids)
    rows = [logits[target.position][target.id] - logits[target.position].mean() for target in result.targets]
    np.testing.assert_allclose(total(result), rows, **CLOSER)


@pytest.mark.parametrize(
    "method",
    present("normxlogit", "occlusion", "lime:samples=20", "gradient-x-input", "integrated-gradients:aggregate=l1"),
)
def test_scores_that_do_not_add_up_have_no_bias(explainer, method):
    assert explainer(TEXT, method=method).bias is None


def test_every_label_and_layer_has_its_own_bias(explainer, model):
    a = explainer(TEXT, method=FROZEN, target=ALL, layers=ALL)
    logits = logits_of(model, TEXT)
    assert a.bias.shape == a.scores.shape[:-1] == (3, 3)
    np.testing.assert_allclose(a.scores.sum(-1) + a.bias, np.repeat(logits[:, None], 3, 1), **CLOSE)
    for label in (0, 2):
        for layer in a.layers:
            one = a[label].layer(layer)
            assert one.bias.shape == ()
            assert one.scores.sum() + one.bias == pytest.approx(logits[label], abs=1e-3)
    assert a.layer(2).bias.shape == (3,)
    assert a[1].bias.shape == (3,)


@pytest.mark.parametrize("method", present(FROZEN, "integrated-gradients:steps=4,aggregate=sum"))
def test_a_text_in_windows_adds_up_to_the_mean_logits(explainer, model, method):
    logits = windowed_logits(model, LONG)
    every = explainer(LONG, long_text="window", method=method, target=ALL)
    np.testing.assert_allclose(every.scores.sum(-1) + every.bias, logits, **CLOSE)
    a = explainer(LONG, long_text="window", method=method)
    assert a.prediction.value == pytest.approx(logits.max(), abs=1e-3)
    assert a.scores.sum() + a.bias == pytest.approx(a.prediction.value, abs=1e-3)
    layered = explainer(LONG, long_text="window", method=FROZEN, target=2, layers=[1, 3])
    np.testing.assert_allclose(layered.scores.sum(-1) + layered.bias, [logits[2]] * 2, **CLOSE)


def test_scores_and_bias_cannot_be_changed(explainer):
    writer = tiny.explainer("llama", "CausalLM")
    for result in (explainer(TEXT, method=FROZEN, target=ALL), writer.explain_completion("the cat", " sat on")):
        with pytest.raises(ValueError, match="read-only"):
            result.bias[0] = 1


OF_LOGITS = {
    "logit": lambda logits, a: logits[a.target.id],
    "value": lambda logits, a: logits[a.target.id],
    "logit less the contrast's": lambda logits, a: logits[a.target.id] - logits[a.target.contrast_id],
    "logit less the vocabulary's mean": lambda logits, a: logits[a.target.id] - logits.mean(),
}
CASES = [
    ("bert", "SequenceClassification", {}, {}, "logit"),
    ("bert", "SequenceClassification", {}, {"target": 0, "contrast": 1}, "logit less the contrast's"),
    ("bert", "SequenceClassification", {"num_labels": 1}, {}, "value"),
    ("gpt2", "CausalLM", {}, {}, "logit less the vocabulary's mean"),
    ("gpt2", "CausalLM", {}, {"target": 9, "contrast": 10}, "logit less the contrast's"),
]


@pytest.mark.parametrize(("family", "kind", "settings", "options", "quantity"), CASES)
def test_scores_add_up_to_what_the_quantity_names(family, kind, settings, options, quantity, tmp_path):
    model = tiny.model(family, kind, **settings)
    e = Explainer(model, tiny.tokenizer_for(family))
    for method in present("frozen-gradient", "integrated-gradients"):
        a = e(TEXT, method=method, **options)
        logits = tiny.logits_of(model, a.token_ids)
        logits = logits if logits.ndim == 1 else logits[a.target.position]
        assert a.quantity == quantity
        own = OF_LOGITS[quantity](logits, a).item()
        assert total(a) == pytest.approx(own, abs=1e-3)
        for file in (tmp_path / "a.json", tmp_path / "a.parquet"):
            a.save(file)
            assert normxlogit.load(file).quantity == quantity


def test_methods_that_read_logits_or_odds_say_so():
    e = Explainer(tiny.model("gpt2", "CausalLM"), tiny.tokenizer_for("gpt2"))
    assert e(TEXT, method="logat").quantity == "logit"
    assert e(TEXT, method="occlusion").quantity == "logit less the vocabulary's mean"
    completion = e.explain_completion(TEXT, " a great film", method="normxlogit")
    assert completion.quantity == "logit"
    assert e.explain_completion(TEXT, " a great film").quantity == "logit less the vocabulary's mean"
    assert e.explain_completion(TEXT, " a great film", sources="word", method="occlusion").quantity == "log-probability"
