"""What users are promised: right numbers, the same however they are asked for, and a model left as it was."""

import copy
import threading

import numpy as np
import pytest
import torch

from normxlogit import (
    Attribution,
    Explainer,
    HeadMismatchError,
    InputError,
    MethodError,
    TargetError,
    UnsupportedModelError,
)
from tests import tiny


def explainer(family="bert", kind="SequenceClassification", **options):
    return Explainer(tiny.model(family, kind, **options), tiny.tokenizer_for(family))


def close(a, b, tolerance=1e-5):
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * max(1.0, float(np.abs(b).max())))


# --- the formula ----------------------------------------------------------------------------------------------------


def test_bert_classifier_equals_a_plain_loop():
    model = tiny.model("bert", num_labels=3)
    made = tiny.tokenizer_for("bert")
    inputs = made(tiny.TEXTS[2], return_tensors="pt")
    with torch.no_grad():
        outputs = model(**inputs, output_hidden_states=True)
        label = outputs.logits.argmax()
        expected = []
        for layer in (1, 2, 3):
            row = []
            for token, start in zip(outputs.hidden_states[layer][0], outputs.hidden_states[0][0], strict=True):
                pooled = torch.tanh(model.bert.pooler.dense(token))
                row.append((model.classifier(pooled)[label] * start.norm()).item())
            expected.append(row)
    result = Explainer(model, made)(tiny.TEXTS[2], layers="all")
    close(result.scores, np.array(expected, dtype=np.float32))
    assert result.layers == (1, 2, 3)
    assert result.target.ids == (int(label),)
    assert result.prediction.id == int(label)
    assert result.prediction.value == pytest.approx(float(outputs.logits.max()), abs=1e-5)
    assert result.prediction.probability == pytest.approx(float(outputs.logits.softmax(-1).max()), abs=1e-5)
    close(Explainer(model, made)(tiny.TEXTS[2]).scores, result.scores[-1])


def test_masked_lm_equals_a_plain_loop():
    model, made = tiny.model("roberta", "MaskedLM"), tiny.tokenizer_for("roberta")
    inputs = made(tiny.MASKED, return_tensors="pt")
    target, contrast = tiny.VOCABULARY["are"], tiny.VOCABULARY["is"]
    with torch.no_grad():
        states = model(**inputs, output_hidden_states=True).hidden_states
        words = model.roberta.embeddings.word_embeddings(inputs["input_ids"])[0]
        expected = []
        for token, word in zip(states[-1][0], words, strict=True):
            logits = model.lm_head(token)
            expected.append(((logits[target] - logits[contrast]) * word.norm()).item())
    result = Explainer(model, made)(tiny.MASKED, target="are", contrast="is", norm_of="word_embedding")
    close(result.scores, np.array(expected, dtype=np.float32))
    assert result.target.position == inputs["input_ids"][0].tolist().index(made.mask_token_id)
    assert (result.target.labels, result.target.contrast) == (("are",), "is")


def test_causal_lm_equals_a_plain_loop():
    model, made = tiny.model("llama", "CausalLM"), tiny.tokenizer_for("llama")
    inputs = made(tiny.TEXTS[0], return_tensors="pt")
    with torch.no_grad():
        outputs = model(**inputs, output_hidden_states=True)
        label = outputs.logits[0, -1].argmax()
        first = model.model.norm(outputs.hidden_states[1][0])  # layers below the last have not met the final norm
        last = outputs.hidden_states[-1][0]
        norms = outputs.hidden_states[0][0].norm(dim=-1)
        expected = torch.stack([model.lm_head(h)[:, label] * norms for h in (first, last)])
    result = Explainer(model, made)(tiny.TEXTS[0], layers=[1, 3])
    close(result.scores, expected.numpy())
    assert result.prediction.id == int(label)
    assert result.target.position == len(result) - 1


def test_regression_is_the_distance_to_the_models_output():
    model, made = tiny.model("bert", num_labels=1), tiny.tokenizer_for("bert")
    inputs = made(*tiny.PAIR, return_tensors="pt")
    with torch.no_grad():
        outputs = model(**inputs, output_hidden_states=True)
        expected = []
        for token in outputs.hidden_states[-1][0]:
            value = model.classifier(torch.tanh(model.bert.pooler.dense(token)))
            expected.append(abs(value - outputs.logits[0]).item())
    result = Explainer(model, made)(tiny.PAIR, method="logat")
    close(result.scores, np.array(expected, dtype=np.float32))
    assert result.scores[0] == pytest.approx(0, abs=1e-5), "the pooled position is the model's own output"
    assert result.prediction.probability is None
    assert result.prediction.value == pytest.approx(outputs.logits.item(), abs=1e-5)
    assert not result.signed
    assert result.target.kind == "value"
    with pytest.raises(TargetError, match="one output"):
        Explainer(model, made)(tiny.TEXTS[0], target=1)


def test_input_norm_and_both_norms():
    model, made = tiny.model("bert"), tiny.tokenizer_for("bert")
    inputs = made(tiny.TEXTS[0], return_tensors="pt")
    with torch.no_grad():
        output = model.bert.embeddings(inputs["input_ids"], token_type_ids=inputs["token_type_ids"])[0].norm(dim=-1)
        word = model.bert.embeddings.word_embeddings.weight[inputs["input_ids"][0]].norm(dim=-1)
    e = Explainer(model, made)
    close(e(tiny.TEXTS[0], method="input-norm").scores, output.numpy())
    close(e(tiny.TEXTS[0], method="input-norm", norm_of="word_embedding").scores, word.numpy())
    logat = e(tiny.TEXTS[0], method="logat").scores
    close(e(tiny.TEXTS[0], norm_of="word_embedding").scores, logat * word.numpy())


def test_random_is_a_seeded_permutation():
    e = explainer()
    first = e(tiny.TEXTS[2], method="random").scores
    assert np.array_equal(first, e(tiny.TEXTS, method="random")[2].scores)
    assert not np.array_equal(first, e(tiny.TEXTS[2], method="random", seed=1).scores)
    assert len(set(first.tolist())) == len(first)


def test_token_predictions_are_the_heads_words():
    model, made = (
        tiny.model("bert", num_labels=3, problem_type="multi_label_classification"),
        tiny.tokenizer_for("bert"),
    )
    result = Explainer(model, made)(tiny.TEXTS[0])
    inputs = made(tiny.TEXTS[0], return_tensors="pt")
    with torch.no_grad():
        states = model.bert(**inputs).last_hidden_state[0]
        logits = model.classifier(torch.tanh(model.bert.pooler.dense(states)))
    assert [p.id for p in result.token_predictions] == logits.argmax(-1).tolist()
    close([p.probability for p in result.token_predictions], logits.max(-1).values.sigmoid().numpy())
    lm = explainer("bert", "MaskedLM")
    assert lm(tiny.MASKED).token_predictions is None, "a vocabulary for every token is not computed unasked"
    said = lm(tiny.MASKED, token_predictions=True)
    assert len(said.token_predictions) == len(said)
    assert said.token_predictions[said.target.position].id == said.prediction.id


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
    layers = None if family in ("xlnet", "mamba") else "all"
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
        scores.append(Explainer(model, tiny.tokenizer_for(family))(tiny.TEXTS, layers="all"))
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
    expected = {t: e(texts, target=t, layers="all") for t in targets}
    fresh = explainer("bert", "MaskedLM")
    wrong = []

    def work(target):
        for _ in range(10):
            for a, b in zip(fresh(texts, target=target, layers="all"), expected[target], strict=True):
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
    e(tiny.TEXTS, layers="all")
    e([tiny.TEXTS[2] * 20])
    for options in ({"target": "nobody knows"}, {"layers": 99}):
        with pytest.raises((TargetError, MethodError)):
            e(tiny.TEXTS, **options)
    assert fingerprint(model) == before
    assert made.backend_tokenizer.to_str() == state


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
    expected = e(tiny.TEXTS, layers="all")
    inputs = made(tiny.TEXTS, return_tensors="pt", padding=True, padding_side=side)
    if side == "left" and family == "bert":
        pytest.skip("a model of absolute positions reads other positions when padded left")
    with torch.no_grad():
        outputs = model(**inputs, output_hidden_states=True)
    calls = []
    trunk = e.model.module.get_submodule(e.model.parts.trunk)
    handle = trunk.register_forward_hook(lambda *_: calls.append(1))
    results = e.from_outputs(inputs, outputs, layers="all")
    handle.remove()
    assert not calls, "the model must not run again"
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


# --- targets --------------------------------------------------------------------------------------------------------


def test_targets_of_a_classifier():
    model = tiny.model("bert", num_labels=3, id2label={0: "bad", 1: "good", 2: "so so"})
    e = Explainer(model, tiny.tokenizer_for("bert"))
    everything = e(tiny.TEXTS[0], target="all", layers=[2, 3])
    assert everything.scores.shape == (3, 2, len(everything))
    assert everything.target.labels == ("bad", "good", "so so")
    for choice in ("good", "GOOD", 1, "1"):
        close(e(tiny.TEXTS[0], target=choice, layers=[2, 3]).scores, everything.scores[1])
    close(e(tiny.TEXTS[0], target=["so so", "bad"]).scores, everything.scores[[2, 0], 1])
    difference = e(tiny.TEXTS[0], target="good", contrast="bad")
    close(difference.scores, everything.scores[1, 1] - everything.scores[0, 1])
    assert difference.target.contrast == "bad"
    close(everything.select(label="so so", layer=2).scores, everything.scores[2, 0])
    with pytest.raises(TargetError, match="bad, good, so so"):
        e(tiny.TEXTS[0], target="awful")
    with pytest.raises(TargetError, match="outside the model's 3 outputs"):
        e(tiny.TEXTS[0], target=3)


def test_targets_of_a_language_model():
    e = explainer("bert", "MaskedLM")
    both = e(tiny.MASKED, target=["are", "is"])
    assert both.scores.shape == (2, len(both))
    close(both.scores[0] - both.scores[1], e(tiny.MASKED, target="are", contrast="is").scores)
    close(both.scores[1], e(tiny.MASKED, target=tiny.VOCABULARY["is"]).scores)
    with pytest.raises(TargetError, match="not one token"):
        e(tiny.MASKED, target="keys cabinet")
    with pytest.raises(TargetError, match="not one token"):
        e(tiny.MASKED, target="zebra")
    with pytest.raises(TargetError, match="vocabulary"):
        e(tiny.MASKED, target="all")
    with pytest.raises(TargetError, match=r"input 1 .* nowhere"):
        e([tiny.MASKED, tiny.TEXTS[0]])
    with pytest.raises(TargetError, match="2 times"):
        e("the [MASK] is [MASK]")


# --- bad input ------------------------------------------------------------------------------------------------------


def test_bad_input():
    e = explainer("bert")
    for bad in ("", "   ", ["fine", ""]):
        with pytest.raises(InputError, match="is empty"):
            e(bad)
    for bad in ([3], 7, [("a", "b", "c")], [b"bytes"]):
        with pytest.raises(InputError):
            e(bad)
    with pytest.raises(MethodError, match="normxlogit"):
        e("fine", method="normxlogits")
    with pytest.raises(MethodError, match="norm_of"):
        e("fine", method="logat", norm_of="word_embedding")
    with pytest.raises(MethodError, match="word_embedding"):
        e("fine", norm_of="words")
    with pytest.raises(MethodError, match="single layers"):
        e("fine", method="input-norm", layers="all")
    with pytest.raises(MethodError, match="layers 1 to 3"):
        e("fine", layers=4)
    assert e([]) == []


def test_long_texts_are_cut_and_said():
    e = explainer("bert")
    text = "the movie is bad " * 20
    result = e(text)
    assert len(result) == 40
    assert "82 tokens; only the first 40" in result.notes[0]
    assert result.tokens[-1] == "[SEP]"
    with pytest.raises(InputError, match="82 tokens and the model reads 40"):
        e(text, long_text="error")


def test_pair_for_a_model_of_single_texts():
    with pytest.raises(InputError, match="single texts"):
        explainer("bert", type_vocab_size=1)(tiny.PAIR)
    pair = explainer("bert")(tiny.PAIR)
    assert (pair.text, pair.text_pair) == tiny.PAIR
    assert {s for s in pair.sequence_ids if s is not None} == {0, 1}
    second = [w for w in pair.words() if w.sequence == 1]
    assert [w.text for w in second] == tiny.PAIR[1].split()


def test_a_bare_encoder_is_refused():
    model = tiny.model("bert").bert
    with pytest.raises(UnsupportedModelError, match="BertForSequenceClassification"):
        Explainer(model, tiny.tokenizer_for("bert"))
    with pytest.raises(UnsupportedModelError, match="not a transformers model"):
        Explainer(torch.nn.Linear(2, 2), tiny.tokenizer_for("bert"))


def test_result_describes_itself():
    model = tiny.model("bert")
    model.config._name_or_path = "some/model"
    result = Explainer(model, tiny.tokenizer_for("bert"))("The keyly cat.")
    assert isinstance(result, Attribution)
    assert (result.model, result.method, dict(result.settings)) == (
        "some/model",
        "normxlogit",
        {"norm_of": "embedding_output"},
    )
    assert [result.text[a:b] for a, b in result.offsets][1:3] == ["The", "key"]
    assert [w.text for w in result.words()] == ["The", "keyly", "cat", "."]
    assert Attribution.from_dict(result.to_dict()) == result
