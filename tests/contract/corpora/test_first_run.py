"""The first half hour with a table of one's own."""

import csv

import pytest

from normxlogit import DataError, Explainer, Predictions, attribute, summarize
from tests import tiny
from tests.commands import run

parquet = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("duckdb")

REVIEWS = ["the movie is good", "a bad plot !", "maybe even mediocre", "a great film with charm", "never awful", "good"]


def table(path, names, *columns):
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([names, *zip(*columns, strict=True)])
    return path


@pytest.fixture
def reviews(tmp_path):
    ids, stars = [f"key {i}" for i in range(6)], [5, 1, 2, 5, 4, 4]
    return table(
        tmp_path / "reviews.csv", ["id", "review", "stars"], [f"r{i}" for i in range(len(ids))], REVIEWS, stars
    )


def test_the_only_column_of_texts_is_taken_and_named(reviews, tmp_path, capsys):
    code, said, _ = run(capsys, "attribute", reviews, "--output", tmp_path / "out", "--method", "input-norm")
    assert code == 0
    assert said == f"{tmp_path / 'out'}: 6 rows of the column 'review'\n"
    assert parquet.read_table(tmp_path / "out/shards")["text"].to_pylist() == REVIEWS
    again = run(capsys, "attribute", reviews, "--output", tmp_path / "out", "--method", "input-norm")[1]
    assert again == f"{tmp_path / 'out'}: 6 rows of the column 'review' (0 now)\n"


@pytest.mark.parametrize(
    ("names", "columns"),
    [
        (["sentence"], [REVIEWS]),
        (["when", "what"], [["2024-01-02 10:00"] * 6, REVIEWS]),
        (["key", "\u6587"], [list("abcdef"), ["\u8fd9\u90e8\u7535\u5f71\u5f88\u597d"] * 6]),
        (["body", "key"], [[*REVIEWS[:4], "", ""], list("abcdef")]),
    ],
)
def test_which_column_holds_texts(names, columns, tmp_path):
    explainer = Explainer(tiny.model("bert", "SequenceClassification"), tiny.tokenizer())
    source = table(tmp_path / "in.csv", names, *columns)
    attribute(explainer, source, tmp_path / "out", method="input-norm")
    text = next(
        column for name, column in zip(names, columns, strict=True) if name in ("sentence", "what", "body", "\u6587")
    )
    kept = parquet.read_table(tmp_path / "out/shards")["text"].to_pylist()
    assert kept == [cell for cell in text if cell]


def test_of_two_columns_of_texts_none_is_taken(tmp_path):
    explainer = Explainer(tiny.model("bert", "SequenceClassification"), tiny.tokenizer())
    source = table(tmp_path / "in.csv", ["title", "review"], ["a fine film"] * 6, REVIEWS)
    with pytest.raises(DataError, match=r"which column holds the texts\? give .*, one of title, review"):
        attribute(explainer, source, tmp_path / "out")
    assert attribute(explainer, source, tmp_path / "out", Predictions("title"), method="input-norm").rows == 6


def test_a_summary_shows_texts_and_tests_words(reviews, tmp_path, capsys):
    attribute(Explainer.from_pretrained(), reviews, tmp_path / "out", Predictions("review", words=True))
    code, printed, said = run(
        capsys, "summarize", tmp_path / "out", "--verify", 3, "--min-count", 1, "--output", tmp_path / "page.html"
    )
    assert (code, said) == (0, f"wrote {tmp_path / 'page.html'}\n")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    for text in ("a great film with charm", "speaks for the answer", "occurrences", "taken out: changed"):
        assert text in page
        assert text in printed
    assert summarize(tmp_path / "out", min_count=1).texts["3"] == "a great film with charm"
