"""What the library or any command writes as JSON or Parquet the library loads, and a full disk keeps the old file."""

import json
import os
from functools import partial

import duckdb
import pandas
import polars
import pytest

import normxlogit
from normxlogit import Attribution, Attributions, DataError
from tests import tiny
from tests.commands import run
from tests.contract.compare import comes_back, refused
from tests.factories import make_attribution, make_generation, pair
from tests.makers import MAKERS

from .faults import full_disk


@pytest.fixture
def several():
    return Attributions([*(make() for make in MAKERS), make_generation().sources("word")])


def strict(path):
    """Read JSON as any other parser does."""
    return json.loads(path.read_text("utf-8"), parse_constant=pytest.fail)


def test_every_kind_of_result_is_saved_and_loaded(several, tmp_path):
    for saved in (*several, several, Attributions([pair()]), Attributions()):
        comes_back(saved, tmp_path)
    several.save(tmp_path / "a.JSON")
    assert normxlogit.load(tmp_path / "a.JSON") == several


@pytest.mark.parametrize("writer", ["pandas", "pandas with Arrow's types", "polars", "duckdb"])
def test_results_that_another_library_read_and_wrote_are_loaded(several, writer, tmp_path):
    """pandas has floats for whole numbers and NaN for missing values."""
    file, again = tmp_path / "one.parquet", tmp_path / "two.parquet"
    for results in (several, Attributions([pair()])):
        results.save(file)
        if writer.startswith("pandas"):
            pandas.read_parquet(file, **({"dtype_backend": "pyarrow"} if "Arrow" in writer else {})).to_parquet(again)
        elif writer == "polars":
            polars.read_parquet(file).write_parquet(again)
        else:
            duckdb.sql(f"COPY (FROM '{file}') TO '{again}'")
        assert normxlogit.load(again) == results


@pytest.mark.parametrize("name", ["a.json", "a.parquet"])
def test_other_files_are_refused(name, tmp_path):
    refused(DataError, f"cannot read .*{name}", lambda: normxlogit.load(tmp_path / name))
    for content in (b"", b"nonsense", b"PAR1" + b"\x00" * 50 + b"PAR1", b'{"format_version": 1, "attributions": 3}'):
        (tmp_path / name).write_bytes(content)
        refused(DataError, name, partial(normxlogit.load, tmp_path / name))


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Folders of a classifier and of a language model."""
    root = tmp_path_factory.mktemp("models")
    tiny.save(root / "bert", "bert")
    tiny.save(root / "llama", "llama", "CausalLM")
    (root / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in tiny.TEXTS))
    return root


WRITTEN = {
    "explain": (["explain", *tiny.TEXTS, "--model", "bert"], Attributions),
    "explain all labels": (["explain", "the cat", "--model", "bert", "--all-labels", "--layers", "all"], Attributions),
    "generate": (["generate", "the cat", "--model", "llama", "--max-new-tokens", "2"], Attribution),
}


@pytest.mark.parametrize("to", ["a file", "standard output"])
@pytest.mark.parametrize(("words", "kind"), WRITTEN.values(), ids=WRITTEN)
def test_what_a_command_writes_is_loaded(words, kind, to, models, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(models)
    file = tmp_path / "out.json"
    code, out, err = run(capsys, *words, *(["--output", file] if to == "a file" else ["--format", "json"]))
    assert (code, err) == (0, f"wrote {file}\n" if to == "a file" else "")
    if to == "standard output":
        file.write_text(out, encoding="utf-8")
    strict(file)
    loaded = normxlogit.load(file)
    assert type(loaded) is kind
    assert kind.from_dict(loaded.to_dict()) == loaded


RESULTS = {"a result": make_attribution, "results": lambda: Attributions([pair(), pair()])}
RESULTS |= {"generated text": make_generation, "sources": lambda: make_generation().sources("word")}


@pytest.mark.parametrize("name", ["why.json", "why.parquet", "why.csv", "why.html"])
@pytest.mark.parametrize("make", RESULTS.values(), ids=RESULTS)
def test_a_full_disk_keeps_the_old_file(make, name, tmp_path):
    file, result = tmp_path / name, make()
    save = result.to_html if name.endswith("html") else result.save
    save(file)
    old = file.read_bytes()
    assert len(old) > 64, "larger than what fits"
    file.write_bytes(b"old and good")
    with full_disk(), pytest.raises(DataError, match=f"cannot write .*{name}"):
        save(file)
    assert file.read_bytes() == b"old and good"
    assert os.listdir(tmp_path) == [name]
    save(file)
    assert len(file.read_bytes()) > 64


def test_one_bit_of_the_scores_of_a_parquet_file_that_is_another_is_noticed(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    Attributions([make_attribution(), pair()]).save(path)
    file = parquet.ParquetFile(path)
    names = [file.schema.column(place).path.split(".")[0] for place in range(len(file.schema))]
    chunk = file.metadata.row_group(0).column(names.index("scores"))
    begin = chunk.data_page_offset if chunk.dictionary_page_offset is None else chunk.dictionary_page_offset
    content = bytearray(path.read_bytes())
    content[begin + chunk.total_compressed_size - 3] ^= 4
    path.write_bytes(bytes(content))
    refused(DataError, rf"{path.name}.*CRC", partial(normxlogit.load, path))
