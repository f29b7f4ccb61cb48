"""Damaged, incomplete and hostile files: an error that names the file, never numbers from what is left of it."""

import shutil
from functools import partial
from pathlib import Path

import pytest

import normxlogit
from normxlogit import Attributions, DataError, attribute, summarize
from tests import tiny
from tests.commands import run as command
from tests.contract.compare import refused
from tests.factories import all_labels, all_layers

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("duckdb")

ROWS = [{"text": " ".join(tiny.WORDS[i : i + 4]), "gold": i % 2} for i in range(12)] + [{"text": None, "gold": 1}]
OPTIONS = {"shard_rows": 6, "keep": ["gold"], "keep_text": True}


@pytest.fixture(scope="module")
def finished(explainer, tmp_path_factory):
    """A corpus folder with three shards, the last of which has an error and no result."""
    folder = tmp_path_factory.mktemp("corpus") / "run"
    attribute(explainer, ROWS, folder, **OPTIONS)
    return folder


@pytest.fixture
def folder(finished, tmp_path):
    return Path(shutil.copytree(finished, tmp_path / "run"))


def flipped(content, place):
    """A file of which one bit is another."""
    changed = bytearray(content)
    changed[place] ^= 4
    return bytes(changed)


def page_of(path, column):
    """Where the values of a column are in a Parquet file."""
    found = pq.ParquetFile(path)
    place = [found.schema.column(i).path.split(".")[0] for i in range(len(found.schema))].index(column)
    chunk = found.metadata.row_group(0).column(place)
    begin = chunk.data_page_offset if chunk.dictionary_page_offset is None else chunk.dictionary_page_offset
    return begin + chunk.total_compressed_size - 3


DAMAGE = {
    "empty": lambda content, _: b"",
    "half": lambda content, _: content[: len(content) // 2],
    "without its end": lambda content, _: content[:-9],
    "text": lambda content, _: b"half of it",
    "one bit of the scores": lambda content, path: flipped(content, page_of(path, "scores")),
    "one bit of the predictions": lambda content, path: flipped(content, page_of(path, "prediction")),
    "one bit of the footer": lambda content, _: flipped(content, len(content) - 40),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_shard_is_named(folder, capsys, name):
    shard = folder / "shards/00000001.parquet"
    shard.write_bytes(DAMAGE[name](shard.read_bytes(), shard))
    for read in (lambda: summarize(folder), lambda: summarize(folder, gold="gold"), lambda: normxlogit.load(shard)):
        refused(DataError, str(shard), read)
    code, out, err = command(capsys, "summarize", folder)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert str(shard) in err


@pytest.mark.parametrize("name", ["empty", "half", "text", "without its end"])
def test_a_damaged_shard_is_written_anew(explainer, finished, folder, name):
    shard = folder / "shards/00000001.parquet"
    shard.write_bytes(DAMAGE[name](shard.read_bytes(), shard))
    attribute(explainer, ROWS, folder, **OPTIONS)
    assert normxlogit.load(shard) == normxlogit.load(finished / "shards/00000001.parquet")


@pytest.mark.parametrize("column", ["scores", "units", "sequence_ids"])
def test_a_shard_without_a_column(folder, column):
    for shard in sorted((folder / "shards").iterdir()):
        pq.write_table(pq.read_table(shard).drop_columns([column]), shard)
    for read in (summarize, lambda _: normxlogit.load(folder / "shards/00000000.parquet")):
        refused(DataError, str(folder), partial(read, folder))


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"[]", b"null", b"{", b"[" * 100_000, b'"' + b"9" * 5000])
def test_a_manifest_that_is_none(explainer, folder, content):
    (folder / "manifest.json").write_bytes(content)
    for read in (lambda: summarize(folder), lambda: attribute(explainer, ROWS, folder, **OPTIONS)):
        refused(DataError, f"{folder}.*manifest.json", read)


def test_a_parquet_result_with_another_state(tmp_path):
    path = tmp_path / "a.parquet"
    Attributions([all_layers(), all_labels()]).save(path)
    table = pq.read_table(path)
    for column in (pa.nulls(2), pa.array([1, 2]), pa.array([[[1]], [[2]]]), pa.array(['{"kind": 1}', "{"])):
        pq.write_table(table.set_column(table.column_names.index("result_json"), "result_json", column), path)
        refused(DataError, str(path), partial(normxlogit.load, path))
