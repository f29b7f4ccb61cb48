"""From a folder to a model with its head, and one line for what cannot be loaded."""

import time

import pytest
import torch
from transformers import BertForSequenceClassification, BertModel, LlamaForCausalLM

from normxlogit import Explainer, InputError, UnsupportedModelError
from normxlogit.models.loading import default_model_folder, load
from tests import tiny


def saved(path, family, kind, **options):
    model = tiny.model(family, kind, **options)
    model.save_pretrained(path)
    tiny.tokenizer_for(family).save_pretrained(path)
    return model


def test_the_model_in_the_package():
    load()
    start = time.perf_counter()
    model, _ = load()
    assert time.perf_counter() - start < 1
    assert isinstance(model, BertForSequenceClassification)
    assert model.dtype == torch.float32, "half precision in the file, full precision on a CPU"
    assert not model.training
    assert model.config.id2label == {0: "negative", 1: "positive"}
    size = sum(file.stat().st_size for file in default_model_folder().iterdir())
    assert size < 16e6


def test_the_head_that_the_configuration_names(tmp_path):
    saved(tmp_path / "lm", "llama", "CausalLM")
    assert isinstance(load(tmp_path / "lm")[0], LlamaForCausalLM)
    saved(tmp_path / "mlm", "bert", "MaskedLM")
    assert type(load(str(tmp_path / "mlm"))[0]).__name__ == "BertForMaskedLM"
    result = Explainer.from_pretrained(tmp_path / "mlm")(tiny.MASKED)
    assert result.model == str(tmp_path / "mlm")


def test_precision(tmp_path):
    tiny.model("bert").half().save_pretrained(tmp_path)
    tiny.tokenizer_for("bert").save_pretrained(tmp_path)
    assert load(tmp_path)[0].dtype == torch.float32
    assert load(tmp_path, dtype=torch.bfloat16)[0].dtype == torch.bfloat16


def test_what_cannot_be_loaded(tmp_path):
    with pytest.raises(InputError, match="no such model folder"):
        load(tmp_path / "nowhere")
    with pytest.raises(InputError, match="cannot load"):
        load("nobody/no-such-model")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="cannot load"):
        load(tmp_path / "empty")
    bare = tmp_path / "bare"
    BertModel(tiny.model("bert").config).save_pretrained(bare)
    with pytest.raises(UnsupportedModelError, match=r"BertModel is a bare encoder.*BertForSequenceClassification"):
        load(bare)


def test_pickled_weights_only_when_asked_by_name(tmp_path):
    model = saved(tmp_path, "bert", "SequenceClassification")
    (tmp_path / "model.safetensors").unlink()
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(InputError, match="allow_pickle=True"):
        load(tmp_path)
    loaded, _ = load(tmp_path, allow_pickle=True)
    torch.testing.assert_close(loaded.classifier.weight, model.classifier.weight)
