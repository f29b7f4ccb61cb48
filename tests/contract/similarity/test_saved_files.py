"""What the command of similarity writes is loaded again."""

import pytest

import normxlogit
from normxlogit import Attribution, Attributions
from tests import tiny
from tests.commands import run
from tests.contract.test_saved_files import strict
from tests.similarity.sentence_steps import steps_beside


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "encoder"
    tiny.model("bert").bert.save_pretrained(folder)
    tiny.tokenizer_for("bert").save_pretrained(folder)
    pooling = {"word_embedding_dimension": 32, "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    steps_beside(folder, ("Pooling", pooling))
    return folder


@pytest.mark.parametrize("texts", [["the cat", "a mat", "--matrix"], ["the cat", "a mat", "bad"]])
@pytest.mark.parametrize("suffix", ["json", "parquet"])
def test_what_the_command_writes_is_loaded(encoder, texts, suffix, capsys, tmp_path):
    file = tmp_path / f"out.{suffix}"
    code, _, err = run(capsys, "similarity", *texts, "--model", encoder, "--output", tmp_path / "out.json")
    assert code == 0, err
    strict(tmp_path / "out.json")
    normxlogit.load(tmp_path / "out.json").save(file)
    loaded = normxlogit.load(file)
    assert type(loaded) is Attributions
    assert Attributions.from_dict(loaded.to_dict()) == loaded == normxlogit.load(tmp_path / "out.json")
    assert all(isinstance(result, Attribution) and result.bias.shape == (2,) for result in loaded)
    assert (loaded[0].pairs is not None) is ("--matrix" in texts)
