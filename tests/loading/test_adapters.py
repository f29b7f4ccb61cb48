"""What is read of an adapter's folder, and the options with which its base model is loaded."""

import json

import pytest
import torch
from safetensors.torch import save_file

from normxlogit import InputError
from normxlogit.loading.adapters import Adapter, read_adapter

CONFIG = {"base_model_name_or_path": "org/base", "task_type": "SEQ_CLS"}
WEIGHTS = {"base_model.model.classifier.weight": (3, 4), "base_model.model.layer.lora_A.weight": (8, 4)}
SHAPES = {"classifier.weight": (3, 4), "layer.lora_A.weight": (8, 4)}


def saved(folder, config=CONFIG, weights="adapter_model.safetensors", tokenizer=False):
    (folder / "adapter_config.json").write_text(config if isinstance(config, str) else json.dumps(config))
    if weights == "adapter_model.safetensors":
        save_file({name: torch.zeros(shape) for name, shape in WEIGHTS.items()}, folder / weights)
    elif weights is not None:
        (folder / weights).write_bytes(b"weights")
    if tokenizer:
        (folder / "tokenizer_config.json").write_text("{}")
    return str(folder)


def read(folder, allow_pickle=False, **options):
    return read_adapter(str(folder), options, allow_pickle=allow_pickle)


def test_what_the_files_of_an_adapter_say(tmp_path):
    source = saved(tmp_path)
    assert read(tmp_path) == Adapter(source, "org/base", None, "sequence-classification", SHAPES, has_tokenizer=False)
    saved(tmp_path, CONFIG | {"revision": "v2"}, tokenizer=True)
    assert read(tmp_path) == Adapter(source, "org/base", "v2", "sequence-classification", SHAPES, has_tokenizer=True)


@pytest.mark.parametrize(
    ("config", "task"),
    [
        ({"task_type": "CAUSAL_LM"}, "causal-lm"),
        ({"task_type": "TOKEN_CLS"}, "token-classification"),
        ({"task_type": "QUESTION_ANS"}, "question-answering"),
        ({"auto_mapping": {"base_model_class": "BertForMaskedLM"}}, "masked-lm"),
        ({"auto_mapping": {"base_model_class": "BertForSequenceClassification"}}, "sequence-classification"),
        ({"task_type": "OF_A_NEWER_PEFT", "auto_mapping": None}, None),
        ({"auto_mapping": {}}, None),
        ({}, None),
    ],
)
def test_the_task_of_an_adapter_is_its_type_or_its_base_models_class(tmp_path, config, task):
    saved(tmp_path, {"base_model_name_or_path": "org/base"} | config)
    assert read(tmp_path).task == task


def test_a_base_model_is_a_folder_here_or_beside_the_adapter_or_a_name(tmp_path, monkeypatch):
    adapter, beside = tmp_path / "adapter", tmp_path / "base"
    for folder in (adapter, beside, tmp_path / "here", tmp_path / "here" / "base"):
        folder.mkdir()
    saved(adapter, {"base_model_name_or_path": "../base"})
    monkeypatch.chdir(tmp_path / "here")
    assert read(adapter).base == str(adapter / ".." / "base")
    (beside / "config.json").write_text("{}")  # which is also ../base from here
    assert read(adapter).base == "../base"
    saved(adapter, {"base_model_name_or_path": "../elsewhere"})
    assert read(adapter).base == "../elsewhere"


def test_a_folder_without_an_adapter_is_none(tmp_path):
    assert read(tmp_path) is None


@pytest.mark.parametrize("config", [{}, {"base_model_name_or_path": ""}, {"base_model_name_or_path": 3}, "[1]", "{"])
def test_a_configuration_that_names_no_base_model_is_refused(tmp_path, config):
    saved(tmp_path, config)
    message = "cannot be read as JSON" if config == "{" else "names no base_model_name_or_path"
    with pytest.raises(InputError, match=message):
        read(tmp_path)


def test_pickled_weights_are_read_by_request_alone(tmp_path):
    saved(tmp_path, weights="adapter_model.bin")
    with pytest.raises(InputError, match="allow_pickle=True"):
        read(tmp_path)
    assert read(tmp_path, allow_pickle=True).shapes == {}
    (tmp_path / "adapter_model.bin").unlink()
    for allow_pickle in (True, False):
        with pytest.raises(InputError, match=r"adapter_model\.safetensors, are missing$"):
            read(tmp_path, allow_pickle)
    (tmp_path / "adapter_model.safetensors").write_bytes(b"\0" * 9)
    with pytest.raises(InputError, match=r"adapter_model\.safetensors cannot be read"):
        read(tmp_path)


def test_an_adapter_in_a_subfolder(tmp_path):
    (tmp_path / "inner").mkdir()
    saved(tmp_path / "inner")
    assert read(tmp_path) is None
    assert read(tmp_path, subfolder="inner").shapes == SHAPES


def made(revision=None, shapes=SHAPES):
    return Adapter("folder", "org/base", revision, None, shapes, has_tokenizer=False)


def test_the_base_model_has_a_revision_of_its_own():
    options = {"revision": "of-the-adapter", "subfolder": "inner", "token": "secret", "num_labels": 2}
    assert made().base_options(options) == {"token": "secret", "num_labels": 2}
    assert made("v2").base_options(options) == {"token": "secret", "num_labels": 2, "revision": "v2"}


@pytest.mark.parametrize(
    ("shapes", "options", "expected"),
    [
        (SHAPES, {}, {"num_labels": 3}),
        (SHAPES, {"revision": "v2"}, {"num_labels": 3}),
        *[(SHAPES, {name: value}, {}) for name, value in (("num_labels", 5), ("id2label", {0: "a"}), ("config", "c"))],
        ({"layer.lora_A.weight": (8, 4)}, {}, {}),
        ({"score.weight": (6, 2)}, {}, {"num_labels": 6}),
        ({"classifier.weight": (9, 9), "classifier.out_proj.weight": (4, 9)}, {}, {"num_labels": 4}),
    ],
)
def test_the_head_has_as_many_outputs_as_that_of_the_adapter(shapes, options, expected):
    assert made(shapes=shapes).head_options(options) == expected
