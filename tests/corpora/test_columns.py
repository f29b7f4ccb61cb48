import io

import pyarrow as pa
import pytest

from normxlogit import Predictions, attribute
from normxlogit.errors import DataError

from .corpora import results, run, texts


def test_a_table_on_standard_input_is_read_and_its_run_resumes(tmp_path, bert, monkeypatch):
    lines = ["key,body", *(f'k{i},"{text}"' for i, text in enumerate(texts(5)))]

    def piped(lines):
        content = "\n".join(lines).encode()
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
        job = Predictions(text_column="body")
        return attribute(bert, "-", tmp_path / "out", input_format="csv", id_column="key", job=job)

    assert piped(lines).rows == 5
    assert results(tmp_path / "out")["id"].to_pylist() == [f"k{i}" for i in range(5)]
    assert piped(lines).fresh == 0
    with pytest.raises(DataError, match="give another --output"):
        piped(lines[:3])


@pytest.mark.parametrize("kind", ["pandas", "polars", "lazy", "arrow"])
def test_tables_in_memory_are_read_as_files_are(tmp_path, bert, kind):
    import pandas
    import polars

    rows = [{"text": None if i == 2 else text, "key": f"k{i}", "stars": i} for i, text in enumerate(texts(20))]
    tables = {"pandas": pandas.DataFrame(rows), "polars": polars.DataFrame(rows), "lazy": polars.LazyFrame(rows)}
    table = (tables | {"arrow": pa.Table.from_pylist(rows)})[kind]
    done = run(bert, table, tmp_path / "out", id_column="key", keep=["stars"])
    assert (done.rows, done.errors) == (20, 1)
    written = results(tmp_path / "out").to_pylist()
    assert [(row["id"], row["stars"]) for row in written] == [(f"k{i}", i) for i in range(20) if i != 2]
    assert run(bert, table, tmp_path / "out", id_column="key", keep=["stars"]).fresh == 0
