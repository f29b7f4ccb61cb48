"""The same scores however one asks for them, and a model left as it was."""

import copy
import random
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from normxlogit import ALL, Explainer, HeadMismatchError, InputError, MethodError, TargetError, list_methods
from tests import tiny


def explainer(family="bert", kind="SequenceClassification", **options):
    return Explainer(tiny.model(family, kind, **options), tiny.tokenizer_for(family))


def close(a, b, tolerance=1e-5):
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * max(1.0, float(np.abs(b).max())))


# --- the same however asked -------------------------------------------------------------------------------------------

EVERYTHING = (
    [(f, "SequenceClassification") for f in tiny.CLASSIFIERS]
    + [(f, "MaskedLM") for f in tiny.MASKED_LMS]
    + [(f, "CausalLM") for f in tiny.CAUSAL_LMS]
)


@pytest.mark.parametrize(("family", "kind"), EVERYTHING)
def test_alone_equals_in_a_batch(family, kind):
    e = explainer(family, kind)
    texts = [f"{t} [MASK]" for t in tiny.TEXTS] if kind == "MaskedLM" else tiny.TEXTS
    layers = None if family in ("xlnet", "mamba") else ALL
    together = e(texts, layers=layers)
    for text, result in zip(texts, together, strict=True):
        alone = e(text, layers=layers)
        close(result.scores, alone.scores)
        assert alone.text == result.text == text
        assert np.isfinite(alone.scores).all()
        assert alone.prediction.label == result.prediction.label


def test_budget_splits_batches_and_keeps_the_order():
    model, made = tiny.model("bert"), tiny.tokenizer_for("bert")
    texts = tiny.TEXTS * 5
    small, large = Explainer(model, made, batch_tokens=20), Explainer(model, made)
    for text, a, b in zip(texts, small(texts), large(texts), strict=True):
        assert a.text == text
        close(a.scores, b.scores)


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


@pytest.mark.parametrize(("family", "kind"), [("bert", "SequenceClassification"), ("llama", "CausalLM")])
def test_eager_equals_sdpa(family, kind):
    scores = []
    for attention in ("eager", "sdpa"):
        model = tiny.model(family, kind)
        model.set_attn_implementation(attention)
        scores.append(Explainer(model, tiny.tokenizer_for(family))(tiny.TEXTS, layers=ALL))
    for a, b in zip(*scores, strict=True):
        close(a.scores, b.scores)


def test_bfloat16_agrees_in_rank():
    scipy_stats = pytest.importorskip("scipy.stats")
    model, made = tiny.model("bert", scale=2.0), tiny.tokenizer_for("bert")
    full = Explainer(model, made)(tiny.TEXTS[2]).scores
    half = Explainer(copy.deepcopy(model).bfloat16(), made)(tiny.TEXTS[2])
    assert half.scores.dtype == np.float32
    assert scipy_stats.spearmanr(full, half.scores).statistic > 0.99


def test_threads_agree_with_one():
    e = explainer("bert", "MaskedLM")
    texts = [f"{t} [MASK]" for t in tiny.TEXTS]
    targets = ["are", "is", "was", "cat"]
    expected = {t: e(texts, target=t, layers=ALL) for t in targets}
    fresh = explainer("bert", "MaskedLM")
    wrong = []

    def work(target):
        for _ in range(10):
            for a, b in zip(fresh(texts, target=target, layers=ALL), expected[target], strict=True):
                if not np.allclose(a.scores, b.scores, atol=1e-4):
                    wrong.append(target)

    threads = [threading.Thread(target=work, args=(t,)) for t in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# --- the caller's model ---------------------------------------------------------------------------------------------


def fingerprint(model):
    return {
        "weights": {n: (p.data_ptr(), p.requires_grad, p.sum().item()) for n, p in model.named_parameters()},
        "buffers": {n: b.data_ptr() for n, b in model.named_buffers()},
        "grads": {n: p.grad for n, p in model.named_parameters()},
        "modes": {n: m.training for n, m in model.named_modules()},
        "hooks": {
            n: [len(getattr(m, h)) for h in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks")]
            for n, m in model.named_modules()
        },
        "attributes": {n: sorted(vars(m)) for n, m in model.named_modules()},
        "modules": {n: id(m) for n, m in model.named_modules()},
        "config": model.config.to_json_string(use_diff=False),
        "attention": model.config._attn_implementation,
    }


@pytest.mark.parametrize(
    ("family", "kind"), [("bert", "SequenceClassification"), ("gpt2", "SequenceClassification"), ("llama", "CausalLM")]
)
def test_the_callers_model_is_untouched(family, kind):
    model, made = tiny.model(family, kind).train(), tiny.tokenizer_for(family)
    model.get_input_embeddings().weight.requires_grad_(False)
    before, state = fingerprint(model), made.backend_tokenizer.to_str()
    e = Explainer(model, made)
    e(tiny.TEXTS, layers=ALL)
    e([tiny.TEXTS[2] * 20])
    for options in ({"target": "nobody knows"}, {"layers": 99}):
        with pytest.raises((TargetError, MethodError)):
            e(tiny.TEXTS, **options)
    assert fingerprint(model) == before
    assert made.backend_tokenizer.to_str() == state


def random_states():
    numpy_state = np.random.get_state()  # noqa: NPY002  # the state that is not to be touched
    return random.getstate(), numpy_state[1].tolist(), numpy_state[2:], torch.get_rng_state().tolist()


@pytest.mark.parametrize("method", [info.name for info in list_methods()])
def test_no_method_touches_the_random_state(method):
    """Nor needs one of its own: whatever the caller seeded, the scores are the same."""
    e = explainer("bert")
    found = []
    for seed in (1, 2):
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        torch.manual_seed(seed)
        before = random_states()
        found.append([result.scores for result in e(tiny.TEXTS, method=method)])
        assert random_states() == before
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_nor_does_the_first_call_of_a_process():
    """Where packages are imported that were not before."""
    program = """
from normxlogit import Explainer
from tests import tiny
from tests.test_promises import random_states
explainer = Explainer(tiny.model("bert"), tiny.tokenizer_for("bert"))
for method in ("lime", "kernel-shap", "guided-lime", "occlusion", "integrated-gradients:steps=2"):
    before = random_states()
    explainer("the cat", method=method)
    assert random_states() == before, method
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[1], check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def test_dropout_of_a_model_in_training_mode_does_not_reach_the_scores():
    model, made = tiny.model("bert"), tiny.tokenizer_for("bert")
    expected = Explainer(model, made)(tiny.TEXTS[0]).scores
    close(Explainer(model.train(), made)(tiny.TEXTS[0]).scores, expected)


def test_weights_changed_in_place_are_seen():
    model, made = tiny.model("bert"), tiny.tokenizer_for("bert")
    e = Explainer(model, made)
    before = e(tiny.TEXTS[0], target=0).scores
    with torch.no_grad():
        model.classifier.weight.mul_(2)
        model.classifier.bias.mul_(2)
    close(e(tiny.TEXTS[0], target=0).scores, 2 * before)


# --- a forward pass that was already run ----------------------------------------------------------------------------


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(("family", "kind"), [("bert", "SequenceClassification"), ("llama", "CausalLM")])
def test_from_outputs(family, kind, side):
    model, made = tiny.model(family, kind), tiny.tokenizer_for(family)
    e = Explainer(model, made)
    expected = e(tiny.TEXTS, layers=ALL)
    inputs = made(tiny.TEXTS, return_tensors="pt", padding=True, padding_side=side)
    if side == "left" and family == "bert":
        pytest.skip("a model of absolute positions reads other positions when padded left")
    with torch.no_grad():
        outputs = model(**inputs, output_hidden_states=True)
    calls = []
    second = next(m for name, m in e.model.module.named_modules() if name.endswith(("layer.1", "layers.1")))
    handle = second.register_forward_pre_hook(lambda *_: calls.append(1))
    results = e.from_outputs(inputs, outputs, layers=ALL)
    handle.remove()
    assert not calls, "the layers must not run again"
    for a, b in zip(results, expected, strict=True):
        close(a.scores, b.scores, 1e-4)
        assert a.tokens == b.tokens
        assert a.prediction.label == b.prediction.label
        assert a.target.position == b.target.position


def test_from_outputs_of_other_inputs_is_refused():
    model, made = tiny.model("bert"), tiny.tokenizer_for("bert")
    e = Explainer(model, made)
    inputs = made(tiny.TEXTS[:1], return_tensors="pt")
    with torch.no_grad():
        outputs = model(**inputs, output_hidden_states=True)
        plain = model(**inputs)
    with pytest.raises(InputError, match="output_hidden_states=True"):
        e.from_outputs(inputs, plain)
    with pytest.raises(InputError, match="shape"):
        e.from_outputs(made(tiny.TEXTS[1:2], return_tensors="pt"), outputs)
    outputs["logits"] = outputs.logits + 1
    with pytest.raises(HeadMismatchError, match="same inputs"):
        e.from_outputs(inputs, outputs)
