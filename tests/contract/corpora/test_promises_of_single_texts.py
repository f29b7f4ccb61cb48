"""In a corpus: what is promised of single texts and results holds."""
# ruff: noqa: F811  # fixtures

import json
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import normxlogit
from normxlogit import (
    ALL,
    Attributions,
    Completions,
    Explainer,
    InputError,
    NormXLogitError,
    Predictions,
    UnsupportedModelError,
    attribute,
    load,
    summarize,
)
from tests import tiny
from tests.commands import run
from tests.corpora.corpora import errors, results

from ..cases import Case
from ..compare import close, refused, same
from ..test_collections import PROMPT, sources, writer  # noqa: F401  # fixtures
from ..test_safe_output import NAME, check_line, check_page
from ..test_saved_files import models, strict  # noqa: F401  # fixtures
from ..test_slow_tokenizers import TEXT, WORDS, bert, folder  # noqa: F401  # fixtures
from ..test_unchanged_process import command
from ..texts import texts


def test_a_corpus_is_summarised_and_a_misspelt_method_is_refused_without_torch(tmp_path):
    attribute(tiny.explainer("bert"), [{"text": "the cat sat"}, {"text": "a dog"}], tmp_path / "run")
    code, out, err = command("summarize", tmp_path / "run", "--min-count", "1")
    assert (code, err) == (0, "")
    assert "cat" in out
    code, out, err = command("attribute", "texts.csv", "--output", "out", "--method", "normxlogt")
    assert (code, out) == (2, "")
    assert err.startswith("error: no method named 'normxlogt'; did you mean normxlogit")


def test_a_corpus_is_not_explained_by_multiple_choice(tmp_path):
    pytest.importorskip("normxlogit.choices")
    explainer = Explainer(tiny.model("bert", "MultipleChoice"), tiny.tokenizer_for("bert"))
    with pytest.raises(UnsupportedModelError, match="a corpus is not explained by models that compare"):
        attribute(explainer, [{"text": "the movie is not good"}], tmp_path / "out")


def test_a_corpus_has_words(bert, tmp_path):
    attribute(bert, [{"text": TEXT}, {"text": "the cat"}], tmp_path / "out", Predictions(words=True), keep_text=True)
    (file,) = (tmp_path / "out").rglob("*.parquet")
    first, second = load(file)
    assert [word.text for word in first.words()] == WORDS
    assert [word.text for word in second.words()] == ["the", "cat"]


def test_a_json_array_is_a_file_of_rows(tmp_path) -> None:
    rows = [{"text": "the movie is good"}, {"text": "a cat"}]
    explainer = Explainer(tiny.model("bert"), tiny.tokenizer_for("bert"), name="tiny")
    files = {"one.json": json.dumps(rows), "lines.json": json.dumps(rows, indent=1), "same.jsonl": json.dumps(rows)}
    for name, content in files.items():
        (tmp_path / name).write_text(content)
        run = attribute(explainer, str(tmp_path / name), output=str(tmp_path / f"{name}.out"))
        assert (run.rows, run.errors) == (2, 0)


def test_every_door_says_so(tmp_path):
    explainer = Explainer.from_pretrained()
    calls = {
        "did you mean pair_column=": lambda: Predictions(text_pair="b"),
        r"Predictions\(text_column=...\)": lambda: attribute(explainer, [], tmp_path / "out", text_column="body"),
        "attribute has no argument 'batch_size'": lambda: attribute(explainer, [], tmp_path / "out", batch_size=4),
        "did you mean gold=": lambda: summarize(tmp_path, golds="label"),
        "attribute: missing a required argument": lambda: attribute(explainer, []),
    }
    for advice, call in calls.items():
        refused(NormXLogitError, advice, call)
    assert not (tmp_path / "out").exists()


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


def test_a_photograph_on_its_side_is_the_same_in_a_corpus(tmp_path) -> None:
    pytest.importorskip("normxlogit.media")
    from tests.media.test_signals import PROCESSOR, vit

    from ..media.test_promises_of_texts import photograph

    explainer, opened = Explainer(vit(), PROCESSOR), photograph()
    levels = np.asarray(opened)
    rows = [{"image": opened}, {"image": levels.transpose(2, 0, 1)}, {"image": opened.convert("CMYK")}]
    attribute(explainer, rows, tmp_path / "out")
    results = normxlogit.load(tmp_path / "out/shards/00000000.parquet")
    for row, result in zip(rows, results, strict=True):
        expected = explainer(row["image"])
        assert result.prediction.probability == pytest.approx(expected.prediction.probability, abs=1e-5)


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


@pytest.mark.parametrize("case", [Case("bert", "SequenceClassification"), Case("gpt2", "CausalLM")], ids=str)
@given(rows=st.lists(texts, min_size=1, max_size=4), layers=st.sampled_from([None, ALL]))
def test_a_corpus_run_says_of_each_text_what_the_explainer_says(case, rows, layers):
    rows = [*rows, "the movie is good"]  # a run without any result is an error
    with tempfile.TemporaryDirectory() as folder:
        inputs, job = [{"text": row} for row in rows], Predictions(layers=layers)
        done = attribute(case.explainer, inputs, folder, job, keep_text=True)
        shards = sorted((Path(folder) / "shards").glob("*.parquet"))
        found = [result for shard in shards for result in normxlogit.load(shard)]
        wrong = errors(folder)
    assert done.rows == len(rows) == len(found) + len(wrong)
    good = [place for place in range(len(rows)) if place not in wrong]
    for place in wrong:
        refused(InputError, ".", partial(case.explainer, rows[place]))
    for place, result in zip(good, found, strict=True):
        own = case.explainer(rows[place], layers=layers)
        assert (result.text, result.tokens, result.offsets) == (own.text, own.tokens, own.offsets)
        assert (result.notes, result.layers, result.target.position) == (own.notes, own.layers, own.target.position)
        np.testing.assert_equal(result.special_tokens_mask, own.special_tokens_mask)
        if result.target.id == own.target.id:  # but for a tie
            close(result.scores, own.scores, 1e-4)
        assert result.prediction.value == pytest.approx(own.prediction.value, rel=1e-4, abs=1e-4)
