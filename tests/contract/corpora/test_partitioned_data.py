"""In a corpus: columns in the paths of files, as Spark and DuckDB write them, and shards without a column."""

import gzip
import json
import random

import pytest

from normxlogit import DataError, attribute, summarize
from tests.commands import run
from tests.contract.compare import refused
from tests.gold import TEXTS, YES, explainer

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.parquet")
pytest.importorskip("duckdb")

WRITERS = ("pyarrow", "duckdb", "csv", "jsonl.gz")


@pytest.fixture(scope="module")
def model():
    return explainer(*YES)


def partitioned(folder, writer):
    """Write texts by language and year; the answers of the model are their languages, so that these are gold labels."""
    languages = ["no", "yes"] * (len(TEXTS) // 2) + ["no"]
    years = [2020 + index % 3 for index in range(len(TEXTS))]
    table = pa.table({"text": TEXTS, "lang": languages, "year": years})
    if writer == "pyarrow":
        pa.parquet.write_to_dataset(table, folder, partition_cols=["lang", "year"])
    elif writer == "duckdb":
        import duckdb

        duckdb.register("rows", table)
        duckdb.execute(f"COPY rows TO '{folder}' (FORMAT parquet, PARTITION_BY (lang, year))")
    else:
        for number, row in enumerate(table.to_pylist()):
            place = folder / f"lang={row['lang']}" / f"year={row['year']}"
            place.mkdir(parents=True, exist_ok=True)
            if writer == "csv":
                (place / f"{number}.csv").write_text(f"text\n{row['text']}\n")
            else:
                (place / f"{number}.jsonl.gz").write_bytes(gzip.compress(json.dumps({"text": row["text"]}).encode()))
    return dict(zip(TEXTS, zip(languages, years, strict=True), strict=True))


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("named", ["{0}", "{0}/lang=*/*/*", "{0}/lang=no {0}/lang=yes"])
def test_columns_in_paths_are_columns(model, tmp_path, writer, named):
    rows = partitioned(tmp_path / "data", writer)
    inputs = [name.format(tmp_path / "data") for name in named.split()]
    attribute(model, inputs, tmp_path / "out", keep=["lang", "year"])
    found = pa.parquet.read_table(tmp_path / "out" / "shards" / "00000000.parquet")
    read = zip(*(found[name].to_pylist() for name in ("text", "lang", "year")), strict=True)
    assert {text: (language, year) for text, language, year in read} == rows
    predicted = found["prediction"].to_pylist()
    right = [label == language for label, language in zip(predicted, found["lang"].to_pylist(), strict=True)]
    assert summarize(tmp_path / "out", gold="lang").accuracy == pytest.approx(sum(right) / len(right))


def test_a_value_may_be_missing_escaped_or_in_the_file_itself(model, tmp_path):
    paths = ["place=K%C3%B6ln", "place=__HIVE_DEFAULT_PARTITION__", "place=a%2Fb"]
    for index, name in enumerate(paths):
        (tmp_path / "data" / name).mkdir(parents=True)
        pa.parquet.write_table(pa.table({"text": [TEXTS[index]]}), tmp_path / "data" / name / "part.parquet")
    attribute(model, str(tmp_path / "data"), tmp_path / "out", keep=["place"])
    found = pa.parquet.read_table(tmp_path / "out" / "shards" / "00000000.parquet")["place"].to_pylist()
    assert sorted(found, key=str) == ["Köln", None, "a/b"]
    own = tmp_path / "own" / "place=path"
    own.mkdir(parents=True)
    pa.parquet.write_table(pa.table({"text": TEXTS[:2], "place": ["file", "file"]}), own / "part.parquet")
    attribute(model, str(own), tmp_path / "of-file", keep=["place"])
    found = pa.parquet.read_table(tmp_path / "of-file" / "shards" / "00000000.parquet")["place"].to_pylist()
    assert found == ["file", "file"]


def test_a_file_outside_the_partitions_is_named(model, tmp_path):
    (tmp_path / "lang=de").mkdir()
    for name in ("lang=de/part.parquet", "other.parquet"):
        pa.parquet.write_table(pa.table({"text": TEXTS[:3]}), tmp_path / name)
    out = tmp_path.with_name("out")
    refused(DataError, "other.parquet: no column 'lang'", lambda: attribute(model, str(tmp_path), out, keep=["lang"]))


@pytest.mark.parametrize("lost", ["gold", "prediction", "scores", "words", "row"])
@pytest.mark.parametrize("shard", [0, 1])
def test_a_shard_without_a_column_is_named(model, tmp_path, capsys, lost, shard):
    rows = pa.table({"text": TEXTS, "gold": [random.choice(YES) for _ in TEXTS]})
    attribute(model, rows, tmp_path / "out", keep=["gold"], shard_rows=10)
    path = tmp_path / "out" / "shards" / f"{shard:08d}.parquet"
    table = pa.parquet.read_table(path)
    pa.parquet.write_table(table.drop_columns([lost]), path)
    message = f"{path.name}: no column '{lost}', which"
    refused(DataError, message, lambda: summarize(tmp_path / "out", gold="gold"), lambda: summarize(tmp_path / "out"))
    code, _, error = run(capsys, "summarize", tmp_path / "out", "--gold", "gold")
    assert (code, error.count("\n")) == (2, 1)
    assert "Binder" not in error
