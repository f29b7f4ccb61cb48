"""The model's own answer, whatever the settings, the dtype, the compiler, and the texts before and beside."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
import transformers

from normxlogit import ALL, Explainer
from tests import tiny
from tests.contract.compare import present, same

TEXT = tiny.TEXTS[2]
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


def without_pad(family, pad=None):
    model = tiny.model(family, num_labels=3)
    model.config.pad_token_id = pad
    tokenizer = tiny.tokenizer(specials=False)
    tokenizer.pad_token = tokenizer.eos_token
    return model, tokenizer


@pytest.mark.parametrize("pad", [None, 3, -1, 999])
@pytest.mark.parametrize("family", ["gpt2", "llama", "qwen2", "opt"])
def test_a_text_that_ends_in_the_end_token_is_answered_as_the_model_answers_it(family, pad):
    model, tokenizer = without_pad(family, pad)
    explainer = Explainer(model, tokenizer)
    texts = ["the movie is not good [SEP]", "bad", "a great film with wit [SEP]", "bad [SEP]", "the cat sat"]
    alone = [explainer(text) for text in texts]
    together = explainer(texts)
    for one, among in zip(alone, together, strict=True):
        own = tiny.logits_of(model, list(one.token_ids))
        assert one.prediction.id == int(own.argmax())
        assert one.prediction.value == pytest.approx(own.max().item(), abs=1e-4)
        np.testing.assert_allclose(among.scores, one.scores, **CLOSE)
    assert model.config.pad_token_id == pad


@pytest.mark.parametrize("pad", [-1, 999])
def test_language_models_are_padded_with_a_token_that_exists(pad):
    model = tiny.model("llama", "CausalLM")
    model.config.pad_token_id = pad
    explainer = Explainer(model, tiny.tokenizer_for("llama"))
    same(explainer(tiny.TEXTS), [explainer(text) for text in tiny.TEXTS])


def layers_compiled(model):
    for layer in model.base_model.modules():
        if type(layer).__name__.endswith(("Layer", "Block", "TransformerBlock")):
            layer.compile(backend="eager")


def trunk_compiled(model):
    name = model.base_model_prefix
    setattr(model, name, torch.compile(getattr(model, name), backend="eager"))


def classifiers(*families):
    return [(family, "SequenceClassification") for family in families]


COMPILED = classifiers("bert", "gpt2", "distilbert")
FORMS = {
    "layers compiled": (layers_compiled, COMPILED, CLOSE),
    "compiled in place": (lambda model: model.compile(backend="eager"), COMPILED, CLOSE),
    "forward compiled": (lambda m: setattr(m, "forward", torch.compile(m.forward, backend="eager")), COMPILED, CLOSE),
    "trunk compiled": (trunk_compiled, COMPILED, CLOSE),
    "returns tuples": (lambda m: setattr(m.config, "return_dict", False), classifiers(*tiny.CLASSIFIERS), CLOSE),
    "float64": (
        lambda model: model.double(),
        [*classifiers("bert"), ("roberta", "MaskedLM"), ("llama", "CausalLM")],
        {"rtol": 1e-3, "atol": 1e-4},
    ),
}
"""What is done to a model, of which families, and how close its scores stay."""


@pytest.mark.parametrize(
    ("form", "family", "kind"), [(name, *of) for name, (_, families, _) in FORMS.items() for of in families]
)
def test_a_model_in_another_form_is_explained_alike(form, family, kind):
    change, _, tolerance = FORMS[form]
    tokenizer, text = tiny.tokenizer_for(family), tiny.MASKED if kind == "MaskedLM" else TEXT
    expected = Explainer(tiny.model(family, kind), tokenizer)(text, layers=ALL).scores
    model = tiny.model(family, kind)
    change(model)
    found = Explainer(model, tokenizer)(text, layers=ALL).scores
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, **tolerance)


def dynamic_llama():
    rope = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 10000.0}
    return tiny.model("llama", max_position_embeddings=8, rope_parameters=rope, num_labels=3)


def longrope():
    rope = {"rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0] * 4, "long_factor": [4.0] * 4}
    rope |= {"factor": 4.0, "original_max_position_embeddings": 8}
    return tiny.model("llama", max_position_embeddings=32, rope_parameters=rope, num_labels=3)


def big_bird():
    config = transformers.BigBirdConfig(
        **tiny.COMMON, **tiny.INNER, max_position_embeddings=256, block_size=4, num_random_blocks=1, num_labels=3
    )
    return tiny.random_model(transformers.BigBirdForSequenceClassification, config)


STATEFUL = {"dynamic": (dynamic_llama, (3, 12, 16, 30)), "longrope": (longrope, (3, 12, 7, 30)),
            "big-bird": (big_bird, (10, 90, 30, 120))}  # fmt: skip


@pytest.mark.parametrize("name", STATEFUL)
def test_a_text_is_explained_alike_alone_in_a_batch_first_and_last(name):
    build, lengths = STATEFUL[name]
    tokenizer = tiny.tokenizer(specials=False)
    tokenizer.model_max_length = 200
    words = np.random.default_rng(0).choice(tiny.WORDS[:40], size=(len(lengths), max(lengths)))
    texts = [" ".join(row[:length]) for row, length in zip(words, lengths, strict=True)]
    alone = [Explainer(build(), tokenizer)(text, layers=ALL, target=0) for text in texts]
    for result in alone:
        own = tiny.logits_of(build(), list(result.token_ids))
        assert result.prediction.value == pytest.approx(own.max().item(), abs=1e-4)
    model = build()
    buffers = {path: buffer.clone() for path, buffer in model.named_buffers()}
    explainer = Explainer(model, tokenizer)
    for order in (range(len(texts)), reversed(range(len(texts)))):
        for place in order:
            found = explainer(texts[place], layers=ALL, target=0)
            np.testing.assert_allclose(found.scores, alone[place].scores, **CLOSE)
    for method in present("normxlogit", "gradient-x-input"):
        single = [Explainer(build(), tokenizer)(text, target=0, method=method) for text in texts]
        same(explainer(texts, target=0, method=method), single)
    for path, buffer in model.named_buffers():
        torch.testing.assert_close(buffer, buffers[path], rtol=0, atol=0)  # nothing is written on the caller's model


@pytest.mark.parametrize("method", present("normxlogit", "gradient-x-input"))
@pytest.mark.parametrize("family", ["bert", "llama"])
def test_autocast_does_not_move_the_scores(family, method):
    tokenizer = tiny.tokenizer_for(family)
    expected = Explainer(tiny.model(family), tokenizer)(TEXT, method=method)
    with torch.autocast("cpu", torch.bfloat16):
        found = Explainer(tiny.model(family), tokenizer)(TEXT, method=method)
    np.testing.assert_allclose(found.scores, expected.scores, **CLOSE)
    assert expected.notes == ()
    assert "in the model's own precision, float32; in autocast" in found.notes[0]


@pytest.mark.parametrize("family", tiny.CLASSIFIERS)
def test_a_first_text_of_one_token_says_nothing_about_later_ones(family):
    tokenizer = tiny.tokenizer(specials=False, padding_side="left" if family == "xlnet" else "right")
    expected = Explainer(tiny.model(family), tokenizer)(TEXT, layers=ALL).scores
    explainer = Explainer(tiny.model(family), tokenizer)
    assert len(explainer("bad").tokens) == 1
    np.testing.assert_allclose(explainer(TEXT, layers=ALL).scores, expected, **CLOSE)


def test_threads_agree_on_models_that_write_on_themselves():
    tokenizer = tiny.tokenizer(specials=False)
    texts = [" ".join(tiny.WORDS[start : start + length]) for start, length in enumerate((3, 30, 12, 25, 7, 16))]
    expected = [Explainer(dynamic_llama(), tokenizer)(text, target=0).scores for text in texts]
    explainer = Explainer(dynamic_llama(), tokenizer)
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda text: explainer(text, target=0).scores, texts * 5))
    for scores, wanted in zip(found, expected * 5, strict=True):
        np.testing.assert_allclose(scores, wanted, **CLOSE)
