"""Columns of a corpus as other programs write them: bytes, and what the folders of a partitioned data set say."""

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


@pytest.mark.parametrize("pattern", ["", "*/*/*.parquet"])
def test_what_the_folders_of_a_partitioned_data_set_say(tmp_path, pattern):
    for year in (2023, 2024):
        for place in ("a%20b", "c"):
            write(tmp_path / f"data/year={year}/place={place}/part.parquet", text=[f"a film of {year}"], own=[place])
    write(tmp_path / "data/year=__HIVE_DEFAULT_PARTITION__/place=c/part.parquet", text=["a film"], own=["c"])
    source = str(tmp_path / "data" / pattern) if pattern else tmp_path / "data"
    rows = explained(tmp_path, source, *(word for name in ("year", "place", "own") for word in ("--keep", name)))
    found = {(row["year"], row["place"], row["own"]) for row in rows}
    assert found == {(y, p, o) for y in ("2023", "2024") for p, o in (("a b", "a%20b"), ("c", "c"))} | {
        (None, "c", "c")
    }


def test_what_a_file_holds_comes_before_what_its_folder_says(tmp_path):
    write(tmp_path / "data/year=2023/part.parquet", text=["a film"], year=["another"])
    assert [row["year"] for row in explained(tmp_path, tmp_path / "data", "--keep", "year")] == ["another"]


def test_texts_as_bytes(tmp_path):
    write(tmp_path / "bytes.parquet", text=[b"a fine film", "caf\u00e9".encode(), b"caf\xe9", None], id=list("abcd"))
    rows = {row["id"]: row for row in explained(tmp_path, tmp_path / "bytes.parquet", "--id-column", "id")}
    assert "film" in rows["a"]["units"]
    assert rows["b"]["units"]
    assert "not UTF-8, at 3" in rows["c"]["reason"]
    assert "is null" in rows["d"]["reason"]


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
