import shutil

import pytest
import torch
from safetensors.torch import load_file

from normxlogit import InputError
from normxlogit.loading.load import load
from tests import tiny

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 1234\n"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return tiny.save(tmp_path_factory.mktemp("whole"), "bert")


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


def test_too_little_memory_is_not_a_broken_file(whole, monkeypatch):
    def from_pretrained(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr("transformers.AutoModelForSequenceClassification.from_pretrained", from_pretrained)
    with pytest.raises(torch.OutOfMemoryError):
        load(whole)
