"""Single files of a model, and converted models that are kept."""

import json
from pathlib import Path

import pytest
import torch
import transformers
from tokenizers import normalizers

from normxlogit import InputError
from normxlogit.loading import converted_gguf
from normxlogit.loading.converted_gguf import cache_folder, converted_folder, save_converted
from normxlogit.loading.model_files import download_options, find_file, read_model_json
from tests import tiny


def test_a_file_is_found_in_its_folder_and_subfolder(tmp_path):
    (tmp_path / "inner").mkdir()
    for folder, value in ((tmp_path, 1), (tmp_path / "inner", 2)):
        (folder / "a.json").write_text(json.dumps({"value": value}))
    assert find_file(str(tmp_path), "a.json", {}) == str(tmp_path / "a.json")
    assert find_file(str(tmp_path), "b.json", {}) is None
    assert find_file("", "a.json", {}) is None
    assert read_model_json(str(tmp_path), "a.json", {}) == {"value": 1}
    assert read_model_json(str(tmp_path), "a.json", {"subfolder": "inner"}) == {"value": 2}
    assert read_model_json(str(tmp_path), "b.json", {}) is None
    for broken in (b"{", b"\xff\xfe\xfa"):
        (tmp_path / "a.json").write_bytes(broken)
        with pytest.raises(InputError, match=r"a\.json cannot be read as JSON"):
            read_model_json(str(tmp_path), "a.json", {})


def test_options_that_say_where_the_files_are():
    options = {"revision": "v2", "subfolder": "inner", "token": "t", "num_labels": 3, "gguf_file": "m.gguf"}
    assert download_options(options) == {"revision": "v2", "subfolder": "inner", "token": "t"}
    assert download_options({"token": "t", "gguf_file": "m.gguf"}, "gguf_file") == {"token": "t", "gguf_file": "m.gguf"}


@pytest.mark.parametrize(
    ("of_package", "of_system", "expected"),
    [
        ("", "/cache", None),
        ("/kept", "/cache", "/kept"),
        ("~/kept", None, "~/kept"),
        (None, "/cache", "/cache/normxlogit"),
        (None, "", "~/.cache/normxlogit"),
        (None, None, "~/.cache/normxlogit"),
    ],
)
def test_the_folder_of_the_cache(monkeypatch, of_package, of_system, expected):
    for name, value in (("NORMXLOGIT_CACHE", of_package), ("XDG_CACHE_HOME", of_system)):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    assert cache_folder() == (None if expected is None else Path(expected).expanduser())


def test_a_converted_model_is_found_by_what_its_file_holds(tmp_path, monkeypatch):
    monkeypatch.setenv("NORMXLOGIT_CACHE", str(tmp_path / "kept"))
    first, same, other, empty = (tmp_path / f"{name}.gguf" for name in ("first", "same", "other", "empty"))
    for file, content in ((first, b"weights"), (same, b"weights"), (other, b"Weights"), (empty, b"")):
        file.write_bytes(content)
    folder = converted_folder(first)
    assert folder.parent == tmp_path / "kept" / "gguf"
    assert folder == converted_folder(same) != converted_folder(other)
    assert converted_folder(empty) is converted_folder(tmp_path / "missing.gguf") is converted_folder(tmp_path) is None
    monkeypatch.setattr("normxlogit.loading.converted_gguf.transformers.__version__", "another")
    assert converted_folder(first) != folder
    monkeypatch.setenv("NORMXLOGIT_CACHE", "")
    assert converted_folder(first) is None


def kept(model, folder):
    save_converted(model, tiny.tokenizer_for("gpt2"), folder)
    return folder.is_dir()


def test_a_converted_model_is_kept_whole_or_not_at_all(tmp_path, monkeypatch, caplog):
    model = tiny.model("gpt2", "CausalLM")  # whose input and output embeddings are one tensor
    model.generation_config.max_length = 33
    save_converted(model, tiny.tokenizer_for("gpt2"), None)
    assert kept(model, tmp_path / "new" / "model")
    assert f"{sum(weight.numel() for weight in model.parameters()) * 4 >> 20} MB" in caplog.text
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "new" / "model")
    assert loaded.config.architectures == ["GPT2LMHeadModel"]
    assert loaded.generation_config.max_length == 33
    for name, value in model.state_dict().items():
        torch.testing.assert_close(loaded.state_dict()[name], value, atol=0, rtol=0)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["model"], "nothing unfinished stays"
    assert not kept(tiny.model("gpt2", "CausalLM").half(), tmp_path / "half")
    size = sum(weight.numel() * weight.element_size() for weight in model.parameters())
    for limit in (size - 1, size):
        monkeypatch.setattr(converted_gguf, "MAX_BYTES", limit)
        assert kept(model, tmp_path / "limited") == (limit == size)


@pytest.mark.parametrize("forms", [(normalizers.NFC(), normalizers.NFD()), (normalizers.NFD(), normalizers.NFC())])
def test_a_model_whose_tokenizer_changes_when_it_is_saved_is_not_kept(tmp_path, monkeypatch, forms):
    saved, reloaded = (tiny.tokenizer_for("gpt2") for _ in forms)
    for tokenizer, form in zip((saved, reloaded), forms, strict=True):
        tokenizer.backend_tokenizer.normalizer = form
    for read, is_kept in ((reloaded, False), (saved, True)):
        monkeypatch.setattr("transformers.AutoTokenizer.from_pretrained", lambda _, read=read: read)
        save_converted(tiny.model("gpt2", "CausalLM"), saved, tmp_path / "model")
        assert (tmp_path / "model").is_dir() is is_kept


def test_a_full_disk_is_no_error(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError("no space left on device")

    monkeypatch.setattr(converted_gguf, "save_model", full)
    assert not kept(tiny.model("gpt2", "CausalLM"), tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_is_kept_already_is_not_written_again(tmp_path, monkeypatch):
    monkeypatch.setattr(converted_gguf, "save_model", None)  # would fail
    (tmp_path / "model").mkdir()
    assert kept(tiny.model("gpt2", "CausalLM"), tmp_path / "model")
