"""The first half hour with a table of one's own."""

import csv

import pytest
from typer.testing import CliRunner

from normxlogit import DataError, Explainer, Predictions, attribute, summarize
from normxlogit.cli import app
from tests import tiny
from tests.commands import run

arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("duckdb")

REVIEWS = ["the movie is good", "a bad plot !", "maybe even mediocre", "a great film with charm", "never awful", "good"]


def table(path, names, *columns):
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([names, *zip(*columns, strict=True)])
    return path


@pytest.fixture
def reviews(tmp_path):
    columns = ["id", "review", "stars"], [f"r{i}" for i in range(6)], REVIEWS, [5, 1, 2, 5, 4, 4]
    return table(tmp_path / "reviews.csv", *columns)


def test_the_only_column_of_texts_is_taken_and_named(reviews, tmp_path, capsys):
    code, said, _ = run(capsys, "attribute", reviews, "--output", tmp_path / "out", "--method", "input-norm")
    assert code == 0
    assert said == f"{tmp_path / 'out'}: 6 rows of the column 'review'\n"
    assert parquet.read_table(tmp_path / "out/shards")["text"].to_pylist() == REVIEWS
    again = run(capsys, "attribute", reviews, "--output", tmp_path / "out", "--method", "input-norm")[1]
    assert again == f"{tmp_path / 'out'}: 6 rows of the column 'review' (0 now)\n"


@pytest.mark.parametrize(
    ("names", "columns", "texts"),
    [
        (["sentence"], [REVIEWS], 0),
        (["when", "what"], [["2024-01-02 10:00"] * 6, REVIEWS], 1),
        (["key", "\u6587"], [list("abcdef"), ["\u8fd9\u90e8\u7535\u5f71\u5f88\u597d"] * 6], 1),
        (["body", "key"], [[*REVIEWS[:4], "", ""], list("abcdef")], 0),
    ],
)
def test_which_column_holds_texts(names, columns, texts, tmp_path):
    explainer = Explainer(tiny.model("bert", "SequenceClassification"), tiny.tokenizer())
    source = table(tmp_path / "in.csv", names, *columns)
    attribute(explainer, source, tmp_path / "out", method="input-norm")
    kept = parquet.read_table(tmp_path / "out/shards")["text"].to_pylist()
    assert kept == [cell for cell in columns[texts] if cell]


def test_of_two_columns_of_texts_none_is_taken(tmp_path):
    explainer = Explainer(tiny.model("bert", "SequenceClassification"), tiny.tokenizer())
    source = table(tmp_path / "in.csv", ["title", "review"], ["a fine film"] * 6, REVIEWS)
    with pytest.raises(DataError, match=r"which column holds the texts\? give .*, one of title, review"):
        attribute(explainer, source, tmp_path / "out")
    assert attribute(explainer, source, tmp_path / "out", Predictions("title"), method="input-norm").rows == 6


def test_a_summary_shows_texts_and_tests_words(reviews, tmp_path, capsys):
    attribute(Explainer.from_pretrained(), reviews, tmp_path / "out", Predictions("review", words=True))
    code, printed, said = run(
        capsys, "summarize", tmp_path / "out", "--verify", 3, "--min-texts", 1, "--output", tmp_path / "page.html"
    )
    assert (code, said.splitlines()[-1]) == (0, f"wrote {tmp_path / 'page.html'}")  # behind progress, if it is slow
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    for text in ("a great film with charm", "speaks for the answer", "In short", "without it"):
        assert text in page
        assert text in printed
    assert "taken out: changed" in page
    assert summarize(tmp_path / "out", min_texts=1).texts["3"] == "a great film with charm"


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


def test_a_summary_is_of_the_results_and_not_of_the_path(tmp_path):
    pytest.importorskip("fsspec")
    explainer, summaries = tiny.explainer("bert"), []
    rows = [{"text": " ".join(tiny.WORDS[i : i + 4]), "gold": i % 2} for i in range(24)]
    names = ("plain", "prediction=x/gold=1", "target=__HIVE_DEFAULT_PARTITION__", "a*b?c[1]", 'it\'s; a "name"')
    for folder in (*(tmp_path / name for name in names), "memory://summaries/method=logat"):
        attribute(explainer, rows, folder, Predictions(words=True), shard_rows=8, keep=["gold"])
        found = summarize(folder, gold="gold", min_texts=1)
        summaries.append((found.rows, found.model, found.accuracy, found.labels, found.texts))
    assert summaries[0][0] == len(rows)
    assert all(summary == summaries[0] for summary in summaries)
