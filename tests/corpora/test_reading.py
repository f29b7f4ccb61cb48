"""Every format gives the same rows; a row that is broken is one row's problem."""

import csv
import gzip
import io
import json
import threading
from dataclasses import replace

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from normxlogit import Predictions
from normxlogit.corpora.rows.reading import open_source
from normxlogit.corpora.rows.shards import read_shards
from normxlogit.errors import DataError
from normxlogit.long_runs.table_files import source_of_file
from normxlogit.results.storage.columns import open_parquet

ROWS = [{"name": f"r{i}", "text": f'text {i}\nof, "two" lines é', "stars": i} for i in range(10)]


def write(folder, kind):
    table = pa.Table.from_pylist(ROWS)
    path = folder / f"in.{kind}"
    if kind == "parquet":
        pq.write_table(table, path, row_group_size=3)
    elif kind in ("csv", "csv.gz"):
        sink = io.BytesIO()
        pyarrow.csv.write_csv(table, sink)
        path.write_bytes(gzip.compress(sink.getvalue()) if kind == "csv.gz" else sink.getvalue())
    elif kind in ("arrow", "feather"):
        to = pa.ipc.new_stream if kind == "arrow" else pa.ipc.new_file
        with pa.OSFile(str(path), "wb") as sink, to(sink, table.schema) as writer:
            writer.write_table(table)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


def read(source, size=4, **columns):
    job = Predictions().with_columns(source.names(), list, reads_media=False)
    return list(read_shards(source, replace(job.columns(reads_media=False), **columns), size))


def rows(shards):
    """The cells of all rows with their numbers, ids and kept columns; no text where a row cannot be read."""
    return [
        {"row": row.number, "id": row.id, "problem": row.problem, "kept": kept, **row.cells}
        for shard in shards
        for row, kept in zip(shard.rows, shard.kept.to_pylist() or [None] * len(shard.rows), strict=True)
    ]


@pytest.mark.parametrize("kind", ["parquet", "csv", "csv.gz", "arrow", "feather", "jsonl"])
def test_every_format_gives_the_same_rows(tmp_path, kind):
    shards = read(open_source(write(tmp_path, kind)), id="name", keep=("stars",))
    assert [len(shard.rows) for shard in shards] == [4, 4, 2]
    assert [shard.rows[0].number for shard in shards] == [0, 4, 8]
    found = rows(shards)
    assert [row["row"] for row in found] == list(range(10))
    assert [row["id"] for row in found] == [row["name"] for row in ROWS]
    assert [row["text"] for row in found] == [row["text"] for row in ROWS]
    assert [int(row["kept"]["stars"]) for row in found] == list(range(10))
    assert not any(row["problem"] for row in found)
    whole = {"csv.gz": 0.0, "feather": 0.78}.get(kind, 1.0)  # not known of a packed file; Arrow's has a list at its end
    assert shards[-1].fraction == pytest.approx(whole, abs=0.02)  # an Arrow stream ends with a mark


@pytest.mark.parametrize("kind", ["parquet", "arrow", "feather"])
def test_no_thread_of_arrow_holds_what_a_process_that_ends_needs(tmp_path, kind):
    """Arrow's threads abort a process that ends while they hold something of Python's: they get nothing of it."""
    content, threads = write(tmp_path, kind).read_bytes(), set()

    class File(io.BytesIO):
        def read(self, *size):
            threads.add(threading.current_thread())
            return super().read(*size)

    form = "parquet" if kind == "parquet" else "arrow"
    source = source_of_file(lambda: File(content), "a file", form, len(content))
    assert sum(len(block.problems) for block in source.blocks(["name", "text"])) == len(ROWS)
    if kind == "parquet":
        with open_parquet(lambda: File(content), "a file") as file:
            assert file.read(use_threads=False).num_rows == len(ROWS)
    assert threads == {threading.main_thread()}


def test_an_arrow_file_that_was_cut_is_refused(tmp_path):
    path = write(tmp_path, "feather")
    content = path.read_bytes()
    for length in (len(content) - 1, len(content) // 2, 12):
        path.write_bytes(content[:length])
        with pytest.raises(DataError, match="not arrow: it has no end"):
            read(open_source(path))


def test_a_data_set_of_hugging_face(tmp_path):
    import datasets

    made = datasets.Dataset.from_list(ROWS)
    made.save_to_disk(tmp_path / "saved")
    for source in (open_source(made), open_source(tmp_path / "saved"), open_source(made.to_iterable_dataset())):
        assert [row["text"] for row in rows(read(source))] == [row["text"] for row in ROWS]


def test_a_pattern_and_a_folder_are_read_in_order(tmp_path):
    for name in ("b", "a", "c"):
        (tmp_path / f"{name}.txt").write_text(f"{name} one\r\n{name} two")
    wanted = [f"{name} {n}" for name in "abc" for n in ("one", "two")]
    for given in (str(tmp_path / "*.txt"), tmp_path, [tmp_path / f"{n}.txt" for n in "abc"]):
        assert [row["text"] for row in rows(read(open_source(given)))] == wanted
    import fsspec

    with fsspec.open("memory://in/some.txt", "w") as file:
        file.write("far away")
    assert rows(read(open_source("memory://in/some.txt")))[0]["text"] == "far away"


def test_broken_rows_of_csv_keep_their_place(tmp_path):
    path = tmp_path / "in.csv"
    path.write_bytes(b'a,text\n1,one\n1,2,3\n3,\xff\n4,"fo\nur"\n5\n')
    found = rows(read(open_source(path)))
    assert [row["text"] for row in found] == [
        "one",
        None,
        "\udcff",
        "fo\nur",
        None,
    ]  # surrogates are refused by the job
    assert [bool(row["problem"]) for row in found] == [False, True, False, False, True]
    assert "3 columns" in found[1]["problem"]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("cut.jsonl.gz", gzip.compress(b'{"text": "a"}\n' * 50)[:30], "cut.jsonl.gz: Compressed file ended"),
        ("wrong.jsonl.xz", b"hello", "cannot read .*wrong.jsonl.xz: Input format not supported"),
        ("wide.jsonl", '{"text": "a"}\n'.encode("utf-16-be"), "wide.jsonl: not jsonl: UTF-16"),
        ("wide.csv", "text\na\n".encode("utf-16-le"), "wide.csv: not csv: UTF-16"),
        ("cut.txt", "a\nb\n".encode("utf-16")[:-1], "cut.txt: not text: .*utf-16"),
        ("twice.csv", b"text,text\na,b\n", "2 columns are called 'text'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_broken_packing_and_other_encodings_are_refused(tmp_path, name, content, says):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=says):
        read(open_source(tmp_path / name))


def test_a_quote_that_is_not_closed_swallows_no_rows(tmp_path):
    (tmp_path / "in.csv").write_text('text,more\none,x\n"open,x\nthree,y\n')
    with pytest.raises(DataError, match=r"in\.csv: a quote is not closed"):
        read(open_source(tmp_path / "in.csv"))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_a_csv_file_of_any_spreadsheet_is_read_by_what_stands_between_its_values(tmp_path, encoding, delimiter):
    """Values hold every delimiter, quotes and line ends; Python's own writer quotes them."""
    texts = ["Grüße; 'a, b' | c\t", 'two\nlines; "x", |', ""]
    table = [["id", "text", "price"], *([str(i), text, "3,50"] for i, text in enumerate(texts))]
    with (tmp_path / "in.csv").open("w", encoding=encoding, newline="") as file:
        csv.writer(file, delimiter=delimiter).writerows(table)
    packed = gzip.compress((tmp_path / "in.csv").read_bytes())
    (tmp_path / "packed.csv.gz").write_bytes(packed)
    for name in ("in.csv", "packed.csv.gz"):
        found = rows(read(open_source(tmp_path / name), id="id", keep=("price",)))
        assert [[row["id"], row["text"], row["kept"]["price"]] for row in found] == table[1:]
        assert not any(row["problem"] for row in found)


@pytest.mark.parametrize("content", ["text,label\na; b,1\nc; d,0\n", "text\n" + "a;b\n" * 40_000])
def test_semicolons_in_texts_do_not_cut_them(tmp_path, content):
    (tmp_path / "in.csv").write_text(content)
    names, *expected = csv.reader(content.splitlines())
    found = [text for block in open_source(tmp_path / "in.csv").blocks(names[:1]) for text in block.cells(names[0])]
    assert found == [row[0] if len(row) == len(names) else None for row in expected]


def test_a_csv_file_may_hold_long_texts_quotes_empty_lines_and_any_line_ends(tmp_path):
    long = "word " * 100_000  # beyond the limit that csv.reader has
    (tmp_path / "in.csv").write_text(f'text,more\r{long},x\n\n"a ""b""\r\nc",y\r\n5" pipe,z', newline="")
    found = [row["text"] for row in rows(read(open_source(tmp_path / "in.csv")))]
    assert found == [long, "", 'a "b"\r\nc', '5" pipe']


def test_quotes_in_a_table_that_is_written_without_make_no_cell_of_several_rows(tmp_path):
    (tmp_path / "in.tsv").write_text('text\tid\na\t1\n"b\t2\nc\t3\n"d\t4\n')
    with pytest.raises(DataError, match=r"in\.tsv: a cell of the column 'text' reaches over several rows, from '"):
        rows(read(open_source(tmp_path / "in.tsv")))
    (tmp_path / "in.tsv").write_text('text\tid\n"two\nlines"\t1\n"a ""tab""\tinside"\t2\n')
    assert [row["text"] for row in rows(read(open_source(tmp_path / "in.tsv")))] == ["two\nlines", 'a "tab"\tinside']


@pytest.mark.parametrize("kind", ["jsonl", "txt"])
def test_lines_of_utf_16_are_lines(tmp_path, kind):
    texts = ["Grüße \u2028 あ", "ਊ", "two"]  # of which a byte is that of a line feed
    lines = [json.dumps({"text": text}, ensure_ascii=False) if kind == "jsonl" else text for text in texts]
    (tmp_path / f"in.{kind}").write_bytes("\r\n".join(lines).encode("utf-16"))
    shards = read(open_source(tmp_path / f"in.{kind}"))
    assert [row["text"] for row in rows(shards)] == texts
    assert shards[-1].fraction == 1.0


def test_a_table_that_cannot_be_unpacked_here_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("fsspec.utils.infer_compression", lambda name: None)
    path = tmp_path / "in.jsonl.zst"
    path.write_bytes(b"\x28\xb5\x2f\xfd\x04")
    with pytest.raises(DataError, match="pip install zstandard, or unpack it"):
        open_source(path)
