"""What tells one model from another."""

import copy

import pytest
import torch

from normxlogit import Explainer
from normxlogit.models.model_digest import model_digest
from tests import tiny


@pytest.fixture(scope="module")
def model():
    return tiny.model("bert", "SequenceClassification")


def digest(model, tokenizer=None, **options):
    return model_digest(Explainer(model, tokenizer or tiny.tokenizer(), **options)._model)


def changed_weight(model):
    with torch.no_grad():
        list(model.parameters())[-1].view(-1)[-1] += 1e-6


def changed_heads(model):
    model.config.num_attention_heads = 2
    for layer in model.bert.encoder.layer:
        layer.attention.self.num_attention_heads, layer.attention.self.attention_head_size = 2, 16


def test_it_is_the_same_for_the_same_model_and_number_of_threads(model):
    first, threads = digest(model), torch.get_num_threads()
    try:
        torch.set_num_threads(threads + 1)
        assert digest(copy.deepcopy(model)) == first
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("change", [changed_weight, changed_heads])
def test_weights_and_configuration_tell_models_apart(model, change):
    other = copy.deepcopy(model)
    change(other)
    assert digest(other) != digest(model)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model_max_length", 5),
        ("truncation_side", "left"),
        ("chat_template", "{{ messages }}"),
        ("unk_token", "the"),
    ],
)
def test_a_tokenizers_settings_tell_models_apart(model, name, value):
    tokenizer = tiny.tokenizer()
    setattr(tokenizer, name, value)
    assert digest(model, tokenizer) != digest(model)


def test_labels_and_what_a_model_writes_by_tell_models_apart(model):
    assert digest(model, labels=["bad", "good"]) != digest(model)
    writer = tiny.model("gpt2", "CausalLM")
    before = digest(writer, tiny.tokenizer_for("gpt2"))
    writer.generation_config.eos_token_id = 7
    assert digest(writer, tiny.tokenizer_for("gpt2")) != before


@pytest.mark.filterwarnings("ignore")  # torch moves its quantisation to another package
def test_quantised_weights_tell_models_apart(model):
    other = copy.deepcopy(model)
    with torch.no_grad():
        other.bert.encoder.layer[0].output.dense.weight *= 3
    kinds = ({torch.nn.Linear}, torch.qint8)
    one, two, again = (torch.ao.quantization.quantize_dynamic(m, *kinds) for m in (model, other, model))
    assert digest(one) == digest(again) != digest(two)
