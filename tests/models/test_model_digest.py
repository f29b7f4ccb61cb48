"""What tells one model from another."""

import pytest

from normxlogit import Explainer
from normxlogit.models.model_digest import model_digest
from tests import tiny


@pytest.fixture(scope="module")
def model():
    return tiny.model("bert", "SequenceClassification")


def digest(model, tokenizer=None, **options):
    return model_digest(Explainer(model, tokenizer or tiny.tokenizer(), **options)._model)


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


def test_a_hook_may_name_a_class_of_tensors_that_are_made_of_others():
    kind = pytest.importorskip("torch.distributed.tensor").DTensor
    model = tiny.model("bert")
    model.bert.encoder.layer[0].register_forward_hook(
        lambda module, args, output: None if isinstance(output, kind) else output
    )
    assert model_digest(Explainer(model, tiny.tokenizer_for("bert"))._model)
