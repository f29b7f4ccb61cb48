"""Columns of a corpus as other programs write them: bytes."""

import pytest
from typer.testing import CliRunner

from normxlogit import InputError
from normxlogit.cli import app

arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


def explained(tmp_path, source, *options):
    line = ["attribute", str(source), "--output", str(tmp_path / "out"), "--method", "input-norm", *options]
    said = CliRunner().invoke(app, line)
    assert said.exit_code == 0, said.output
    files = sorted((tmp_path / "out").rglob("*.parquet"))
    return [row for file in files for row in parquet.ParquetFile(file).read().to_pylist()]


def write(file, **columns):
    file.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(arrow.table(columns), file)


def test_texts_as_bytes(tmp_path):
    write(tmp_path / "bytes.parquet", text=[b"a fine film", "caf\u00e9".encode(), b"caf\xe9", None], id=list("abcd"))
    rows = {row["id"]: row for row in explained(tmp_path, tmp_path / "bytes.parquet", "--id-column", "id")}
    assert "film" in rows["a"]["units"]
    assert rows["b"]["units"]
    assert "not UTF-8, at 3" in rows["c"]["reason"]
    assert "is null" in rows["d"]["reason"]


@pytest.mark.parametrize("names", ["text;Preis, EUR;label", '"a;b",text,label', "text,label,c"])
def test_the_delimiter_of_a_csv_file_is_what_divides_its_names_most(tmp_path, names):
    mark = ";" if names.count(";") == 2 else ","
    row = {"text": "a fine film", "label": "positive"}
    (tmp_path / "in.csv").write_text(f"{names}\n" + mark.join(row.get(n, "7") for n in names.split(mark)) + "\n")
    (found,) = explained(tmp_path, tmp_path / "in.csv", "--keep", "label")
    assert (found["text"], found["label"]) == ("a fine film", "positive")


def test_columns_are_named_by_their_roles(tmp_path):
    write(tmp_path / "in.parquet", body=["a fine film", "a bad plot"], why=["negative", "positive"])
    rows = explained(tmp_path, tmp_path / "in.parquet", "--column", "text=body", "--column", "target=why")
    assert [row["text"] for row in rows] == ["a fine film", "a bad plot"]
    assert [row["target"] for row in rows] == [["negative"], ["positive"]]


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        (["text=body", "text=why"], "one column for each role"),
        (["prompt=body"], "is for --job completions"),
        (["body"], "ROLE=NAME"),
    ],
)
def test_a_role_that_a_job_has_not_is_refused(tmp_path, columns, says):
    words = [word for column in columns for word in ("--column", column)]
    with pytest.raises(InputError, match=says):
        CliRunner().invoke(app, ["attribute", "in.parquet", "--output", str(tmp_path), *words], catch_exceptions=False)
