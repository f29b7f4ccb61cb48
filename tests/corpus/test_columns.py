"""Columns: which there are, what they are called, and tables in memory."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from normxlogit import attribute
from normxlogit.corpus import formats
from normxlogit.errors import DataError

from .corpora import jsonl, results, run, texts


@pytest.mark.parametrize("named", [{"id_column": "nope"}, {"keep": ["nope"]}], ids=str)
def test_a_column_that_no_row_of_a_stream_has_is_refused_and_the_folder_is_free_again(
    tmp_path, bert, named, monkeypatch
):
    source = jsonl(tmp_path / "in.jsonl", [{"text": text} for text in texts(5)])

    def stream():
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(source.read_bytes())))
        return "-"

    with pytest.raises(DataError, match="no column 'nope' in the input; there are text"):
        attribute(bert, stream(), tmp_path / "out", input_format="jsonl", **named)
    assert attribute(bert, stream(), tmp_path / "out", input_format="jsonl").rows == 5
    assert results(tmp_path / "out")["id"].to_pylist() == list("01234")


@pytest.mark.parametrize("kind", ["text", "jsonl"])
@pytest.mark.parametrize("named", [{"id_column": "nope"}, {"keep": ["nope"]}, {"target_column": "nope"}], ids=str)
def test_a_column_that_a_file_has_not_is_refused(tmp_path, bert, named, kind):
    source = jsonl(tmp_path / "in", [{"text": text} for text in texts(5)])
    with pytest.raises(DataError, match="no column 'nope' in the input; there are text"):
        attribute(bert, source, tmp_path / "out", input_format=kind, **named)


def test_columns_that_the_first_rows_lack_are_there(tmp_path, bert):
    first = [{"other": 1}, {"text": "the movie is good"}]
    rows = first + [{"text": text, "key": f"k{i}", "gold": i} for i, text in enumerate(texts(5))]
    for source in (jsonl(tmp_path / "in.jsonl", rows), rows):
        out = tmp_path / type(source).__name__
        run(bert, source, out, id_column="key", keep=["gold"])
        assert results(out)["id"].to_pylist() == ["row 1", "k0", "k1", "k2", "k3", "k4"]
        assert results(out)["gold"].to_pylist() == [None, 0, 1, 2, 3, 4]


def test_a_column_of_a_table_may_be_empty_for_long(tmp_path, bert, monkeypatch):
    monkeypatch.setattr(formats, "BLOCK", 4)
    table = pa.table({"text": texts(6), "key": [*[None] * 5, "last"], "gold": pa.array([None] * 6, pa.int64())})
    pq.write_table(table, tmp_path / "in.parquet")
    run(bert, tmp_path / "in.parquet", tmp_path / "out", id_column="key", keep=["gold"])
    assert results(tmp_path / "out")["id"].to_pylist() == ["row 0", "row 1", "row 2", "row 3", "row 4", "last"]


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
def test_tables_in_memory_are_read_as_files_are(tmp_path, bert, kind):
    import pandas
    import polars

    rows = [{"text": None if i == 2 else text, "key": f"k{i}", "stars": i} for i, text in enumerate(texts(20))]
    frame = pandas.DataFrame(rows)
    table = {"pandas": frame, "polars": polars.DataFrame(rows), "arrow": pa.Table.from_pylist(rows)}[kind]
    done = run(bert, table, tmp_path / "out", id_column="key", keep=["stars"])
    assert (done.rows, done.errors) == (20, 1)
    assert results(tmp_path / "out")["id"].to_pylist() == [f"k{i}" for i in range(20) if i != 2]
    assert results(tmp_path / "out")["stars"].to_pylist() == [i for i in range(20) if i != 2]
    assert run(bert, table, tmp_path / "out", id_column="key", keep=["stars"]).fresh == 0


def test_what_polars_writes_is_kept(tmp_path, bert):
    import polars

    kind = polars.Series(["x", "y", "x"]).cast(polars.Categorical)
    frame = polars.DataFrame({"text": texts(3), "kind": kind, "more": [["a"], [], ["b", "c"]], "one": [{"s": "t"}] * 3})
    frame.write_ipc(tmp_path / "in.arrow")
    for source in (frame, tmp_path / "in.arrow"):
        out = tmp_path / type(source).__name__
        run(bert, source, out, id_column="kind", keep=["kind", "more", "one"])
        found = results(out).to_pylist()
        assert [row["id"] for row in found] == [row["kind"] for row in found] == ["x", "y", "x"]
        assert [row["more"] for row in found] == [["a"], [], ["b", "c"]]
        assert found[0]["one"] == {"s": "t"}


def test_tables_and_texts_that_are_no_rows_are_refused(tmp_path, bert):
    import pandas

    with pytest.raises(DataError, match="cannot read this DataFrame as an Arrow table"):
        run(bert, pandas.DataFrame({"text": ["good", 5, b"x"]}), tmp_path / "out")
    with pytest.raises(DataError, match="no such file; a text in memory is a row"):
        run(bert, ["The movie is good.", "bad"], tmp_path / "out")
