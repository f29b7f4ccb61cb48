"""Broken model folders and wrong options: one line for each, whatever is wrong."""

import shutil

import pytest
import torch
import transformers
from safetensors.torch import load_file
from transformers import BertForSequenceClassification

from normxlogit import Explainer, InputError, UnsupportedModelError
from normxlogit.models.loading import load

from .test_checkpoints import configured, saved

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 1234\n"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    saved(folder, "bert", "SequenceClassification")
    return folder


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("model.safetensors", b"", "model.safetensors is empty"),
        ("model.safetensors", POINTER, "model.safetensors is a pointer of Git LFS.*git lfs pull"),
        ("model.safetensors", b"x" * 1000, "the model cannot be read.*SafetensorError"),
        ("model.safetensors", None, "the model cannot be read.*SafetensorError"),
        ("config.json", b"", "config.json is empty"),
        ("config.json", POINTER, "config.json is a pointer of Git LFS"),
        ("config.json", b"hello", "not a valid JSON file"),
        ("config.json", b"null", "its configuration cannot be read"),
        ("config.json", b"[]", "Unrecognized model|its configuration cannot be read"),
        ("config.json", b'{"a": "\xe9"}', "not a valid JSON file"),
        ("tokenizer.json", b"", "tokenizer.json is empty"),
        ("tokenizer.json", b'{"a": ', "its tokenizer cannot be read"),
        ("tokenizer.json", b'{"a": 1}', "its tokenizer cannot be read"),
        ("tokenizer_config.json", b"[1", "its tokenizer cannot be read"),
        ("tokenizer_config.json", b"[]", "its tokenizer cannot be read"),
        ("tokenizer_config.json", b'{"tokenizer_class": 3}', "its tokenizer cannot be read"),
    ],
)
def test_broken_files_are_one_line(whole, tmp_path, name, content, message):
    folder = tmp_path / "broken"
    shutil.copytree(whole, folder)
    file = folder / name
    file.write_bytes(file.read_bytes()[:5000] if content is None else content)
    with pytest.raises(InputError, match=message) as caught:
        load(folder)
    assert "\n" not in str(caught.value)


def test_a_broken_file_is_found_behind_what_is_no_part_of_the_model(whole, tmp_path):
    folder = tmp_path / "broken"
    shutil.copytree(whole, folder)
    (folder / "README.md").touch()
    (folder / "figures").mkdir()
    (folder / "model.safetensors").write_bytes(b"")
    with pytest.raises(InputError, match=r"model\.safetensors is empty"):
        load(folder)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "pytorch_model.bin is empty"),
        (POINTER, "pytorch_model.bin is a pointer"),
        (b"x" * 1000, "its pickled weights are broken"),
        (None, "cannot load"),
    ],
)
def test_broken_pickles_are_one_line(whole, tmp_path, content, message):
    folder = tmp_path / "broken"
    shutil.copytree(whole, folder)
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    file = folder / "pytorch_model.bin"
    file.write_bytes(file.read_bytes()[:5000] if content is None else content)
    with pytest.raises(InputError, match=message) as caught:
        load(folder, allow_pickle=True)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_size": "32"}, "its configuration cannot be read.*hidden_size.*expected int"),
        ({"num_attention_heads": 0}, "the model cannot be read.*ZeroDivisionError"),
        ({"id2label": ["a", "b"]}, "its configuration cannot be read"),
        ({"id2label": {"a": "x", "b": "y"}}, "its configuration cannot be read"),
        ({"id2label": {}}, "has other shapes of classifier"),
        ({"model_type": "nonsense"}, "model type `nonsense`"),
    ],
)
@pytest.mark.filterwarnings("ignore:Initializing zero-element")
def test_settings_that_make_no_model_are_one_line(whole, tmp_path, changes, message):
    folder = tmp_path / "broken"
    shutil.copytree(whole, folder)
    configured(folder, **changes)
    with pytest.raises(InputError, match=message) as caught:
        load(folder)
    assert "\n" not in str(caught.value)


def refusing_labels_itself():
    """Whether this transformers takes no labels but strings."""
    try:
        transformers.BertConfig(id2label={0: 3})
    except Exception:
        return True
    return False


@pytest.mark.parametrize("names", [{"1": "a", "2": "b"}, {"0": None, "1": "b"}])
def test_labels_that_are_not_named_from_zero_up(whole, tmp_path, names):
    folder = tmp_path / "labels"
    shutil.copytree(whole, folder)
    configured(folder, id2label=names, label2id=None)
    itself = refusing_labels_itself() and None in names.values()
    error = InputError if itself else UnsupportedModelError
    with pytest.raises(error, match="id2label" if itself else "must name the outputs from 0 up"):
        Explainer.from_pretrained(folder)


def test_a_missing_gguf_package(whole, monkeypatch):
    def from_pretrained(*_, **__):
        raise ImportError("Please install torch and gguf>=0.10.0 to load a GGUF checkpoint in PyTorch.\nMore")

    monkeypatch.setattr("transformers.AutoConfig.from_pretrained", from_pretrained)
    with pytest.raises(InputError, match="pip install gguf"):
        load(whole, gguf_file="model.gguf")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"task": "nonsense"}, "no task 'nonsense'"),
        ({"dtype": "nonsense"}, "no dtype 'nonsense'"),
        ({"dtype": "nn"}, "no dtype 'nn'"),
        ({"device": "nonsense"}, "no device 'nonsense'"),
    ],
)
def test_options_that_do_not_exist(whole, options, message):
    with pytest.raises(InputError, match=message):
        load(whole, **options)


@pytest.mark.parametrize("name", ["", "  ", "a\0b"])
def test_names_that_are_none(name):
    with pytest.raises(InputError, match="is not a name of a model"):
        load(name)


def test_a_folder_in_the_home_directory(whole, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(whole.parent))
    model, _ = load(f"~/{whole.name}")
    assert isinstance(model, BertForSequenceClassification)
    with pytest.raises(InputError, match="no such model folder"):
        load("~/nowhere")


def test_too_little_memory_is_not_a_broken_file(whole, monkeypatch):
    def from_pretrained(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr("transformers.AutoModelForSequenceClassification.from_pretrained", from_pretrained)
    with pytest.raises(torch.OutOfMemoryError):
        load(whole)
