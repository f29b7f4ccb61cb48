"""In a corpus: what is promised of single texts and results holds."""
# ruff: noqa: F811  # fixtures

import json

import pytest

import normxlogit
from normxlogit import Attributions, Completions, Explainer, UnsupportedModelError, attribute
from tests import tiny
from tests.commands import run
from tests.corpora.corpora import results

from ..cli.test_start_up import command
from ..compare import same
from ..test_collections import PROMPT, sources, writer  # noqa: F401  # fixtures
from ..test_safe_output import NAME, check_line, check_page
from ..test_saved_files import models, strict  # noqa: F401  # fixtures


def test_a_corpus_is_summarised_and_a_misspelt_method_is_refused_without_torch(tmp_path):
    attribute(tiny.explainer("bert"), [{"text": "the cat sat"}, {"text": "a dog"}], tmp_path / "run")
    code, out, err = command("summarize", tmp_path / "run", "--min-texts", "1")
    assert (code, "error" in err) == (0, False)  # there is progress if it is slow
    assert "cat" in out
    code, out, err = command("attribute", "texts.csv", "--output", "out", "--method", "normxlogt")
    assert (code, out) == (2, "")
    assert err.startswith("error: no method named 'normxlogt'; did you mean normxlogit")


def test_a_corpus_is_not_explained_by_multiple_choice(tmp_path):
    pytest.importorskip("normxlogit.choices")
    explainer = Explainer(tiny.model("bert", "MultipleChoice"), tiny.tokenizer_for("bert"))
    with pytest.raises(UnsupportedModelError, match="needs one text for each answer"):
        attribute(explainer, [{"text": "the movie is not good"}], tmp_path / "out")


def test_a_json_array_is_a_file_of_rows(tmp_path) -> None:
    rows = [{"text": "the movie is good"}, {"text": "a cat"}]
    explainer = Explainer(tiny.model("bert"), tiny.tokenizer_for("bert"), name="tiny")
    files = {"one.json": json.dumps(rows), "lines.json": json.dumps(rows, indent=1), "same.jsonl": json.dumps(rows)}
    for name, content in files.items():
        (tmp_path / name).write_text(content)
        run = attribute(explainer, str(tmp_path / name), output=str(tmp_path / f"{name}.out"))
        assert (run.rows, run.errors) == (2, 0)


def test_a_corpus_of_columns_of_the_only_split_and_of_one_kept_column(explainer, tmp_path):
    datasets = pytest.importorskip("datasets")
    columns = {"text": tiny.TEXTS, "stars": list(range(len(tiny.TEXTS)))}
    only_split = datasets.DatasetDict({"train": datasets.Dataset.from_dict(columns)})
    for number, source in enumerate((columns, only_split)):
        attribute(explainer, source, tmp_path / str(number), keep="stars")
        rows = results(tmp_path / str(number)).to_pylist()
        assert [row["stars"] for row in rows] == columns["stars"]
        for row, text in zip(rows, tiny.TEXTS, strict=True):
            assert row["scores"] == pytest.approx(explainer(text).scores.tolist(), rel=1e-4, abs=1e-5)


def test_saved_sources_have_the_columns_of_a_corpus(writer, sources, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [{"prompt": PROMPT, "completion": " the cat is here"}]
    attribute(writer, rows, tmp_path / "out", Completions(sources="sentence"), keep_text=True)
    (shard,) = (tmp_path / "out" / "shards").glob("*.parquet")
    sources[0].save(tmp_path / "one.parquet")
    corpus, saved = parquet.read_table(shard), parquet.read_table(tmp_path / "one.parquet")
    assert set(corpus.column_names) <= set(saved.column_names)
    for name in corpus.column_names:
        assert corpus.schema.field(name).type == saved.schema.field(name).type
    for name in ("text", "units", "unit_names", "target_spans", "shares", "method", "model"):
        assert corpus[name].to_pylist() == saved[name].to_pylist()
    (again,) = normxlogit.load(shard)
    Attributions([again]).save(tmp_path / "again.parquet")
    assert normxlogit.load(tmp_path / "again.parquet") == [again]


def summarized(name, folder, capsys):
    """Explain a corpus of a model, texts and labels with a name, and return what is printed of it and its page."""
    model, tokenizer = tiny.model("bert"), tiny.tokenizer_for("bert")
    model.config.id2label = {0: name, 1: "b"}
    tokenizer.add_tokens([name])
    model.resize_token_embeddings(len(tokenizer) + 8)
    rows = [{"text": f"the cat {name} sat", "label": name}] * 12
    attribute(Explainer(model, tokenizer, name=name), rows, folder, keep_text=True, keep=["label"])
    code, out, err = run(capsys, "summarize", folder, "--gold", "label")
    assert (code, err) == (0, "")
    page = folder.with_suffix(".html")
    code, _, err = run(capsys, "summarize", folder, "--gold", "label", "--output", page)
    assert (code, err) == (0, f"wrote {page}\n")
    return out, page.read_text("utf-8")


def test_the_page_and_the_lists_of_a_corpus(tmp_path, capsys):
    out, page = summarized(NAME, tmp_path / "hostile", capsys)
    check_line(out)
    check_page(page, summarized("word", tmp_path / "harmless", capsys)[1])


def test_what_a_corpus_run_writes_is_loaded(models, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(models)
    code, _, err = run(capsys, "attribute", "texts.jsonl", "--output", tmp_path / "out", "--model", "bert")
    assert code == 0, err
    (shard,) = (tmp_path / "out/shards").glob("*.parquet")
    loaded, own = normxlogit.load(shard), Explainer.from_pretrained("bert")(tiny.TEXTS)
    assert [(result.text, result.tokens) for result in loaded] == [(result.text, result.tokens) for result in own]
    same(loaded, own)
    strict(tmp_path / "out/manifest.json")
    code, out, err = run(capsys, "summarize", tmp_path / "out", "--format", "json")
    assert code == 0, err
    (tmp_path / "summary.json").write_text(out)
    strict(tmp_path / "summary.json")
