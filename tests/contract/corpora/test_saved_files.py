"""In a corpus: what the library or any command writes as JSON or Parquet the library loads."""
# ruff: noqa: F811  # fixtures

import numpy as np

import normxlogit
from normxlogit import Explainer
from tests import tiny
from tests.commands import run

from ..test_saved_files import (
    models,  # noqa: F401  # fixtures
    strict,
)


def test_what_a_corpus_run_writes_is_loaded(models, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(models)
    code, _, err = run(capsys, "attribute", "texts.jsonl", "--output", tmp_path / "out", "--model", "bert")
    assert code == 0, err
    (shard,) = (tmp_path / "out/shards").glob("*.parquet")
    loaded = normxlogit.load(shard)
    own = Explainer.from_pretrained("bert")(tiny.TEXTS)
    assert [result.text for result in loaded] == tiny.TEXTS
    for result, expected in zip(loaded, own, strict=True):
        np.testing.assert_allclose(result.scores, expected.scores, rtol=1e-4, atol=1e-5)
        assert result.tokens == expected.tokens
    strict(tmp_path / "out/manifest.json")
    code, out, err = run(capsys, "summarize", tmp_path / "out", "--format", "json")
    assert code == 0, err
    (tmp_path / "summary.json").write_text(out)
    strict(tmp_path / "summary.json")
