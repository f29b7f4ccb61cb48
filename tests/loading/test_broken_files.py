import shutil

import pytest
import torch

from normxlogit import InputError
from normxlogit.loading.load import load
from tests import tiny


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


def test_too_little_memory_is_not_a_broken_file(whole, monkeypatch):
    def from_pretrained(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr("transformers.AutoModelForSequenceClassification.from_pretrained", from_pretrained)
    with pytest.raises(torch.OutOfMemoryError):
        load(whole)
