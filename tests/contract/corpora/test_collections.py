"""In a corpus: collections keep their class, draw whatever they hold, and are saved and loaded."""
# ruff: noqa: F811  # fixtures

import pytest

import normxlogit
from normxlogit import Attributions, Completions, attribute

from ..test_collections import PROMPT, sources, writer  # noqa: F401  # fixtures


def test_saved_sources_have_the_columns_of_a_corpus(writer, sources, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [{"prompt": PROMPT, "completion": " the cat is here"}]
    attribute(writer, rows, tmp_path / "out", Completions(sources="sentence"), keep_text=True)
    (shard,) = (tmp_path / "out" / "shards").glob("*.parquet")
    sources[0].save(tmp_path / "one.parquet")
    corpus, saved = parquet.read_table(shard), parquet.read_table(tmp_path / "one.parquet")
    assert set(corpus.column_names) <= set(saved.column_names)
    for name in corpus.column_names:
        assert corpus.schema.field(name).type == saved.schema.field(name).type
    for name in ("text", "units", "unit_names", "target_spans", "shares", "method", "model"):
        assert corpus[name].to_pylist() == saved[name].to_pylist()
    (again,) = normxlogit.load(shard)
    Attributions([again]).save(tmp_path / "again.parquet")
    assert normxlogit.load(tmp_path / "again.parquet") == [again]
