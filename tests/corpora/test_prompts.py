import numpy as np
import pytest

import normxlogit
from normxlogit import Completions, attribute, summarize
from normxlogit.errors import DataError
from normxlogit.methods import method_named
from normxlogit.pipeline.completions.completed_prompts import read_completion
from normxlogit.pipeline.completions.sources import explain_sources
from normxlogit.pipeline.options import Options
from tests import tiny

from .corpora import errors, jsonl, results

CHAT = [
    {"role": "system", "content": "the movie is good"},
    {"role": "user", "content": "A great film. Never awful! Maybe even a mediocre plot."},
]
ROWS = [
    {"key": "a", "prompt": "The movie is good. The plot is bad.", "completion": " a great film"},
    {"key": "b", "prompt": CHAT, "completion": "never awful"},
    {"key": "c", "prompt": None, "completion": "good"},
    {"key": "d", "prompt": 17, "completion": "good"},
    {"key": "e", "prompt": "The movie is bad.", "completion": ""},
    {"key": "f", "prompt": [{"content": "no role"}], "completion": "good"},
    {"key": "g", "prompt": "The cast is good. " * 3, "completion": " bad. Never good!"},
    {"key": "h", "prompt": "The cast is good.", "completion": None},
    {"key": "i", "prompt": "good " * 600, "completion": " bad"},
]
FAILED = {
    2: "no text: column 'prompt' is null",
    3: "not text: column 'prompt' holds '17'",
    4: "the completion is empty",
    5: "a prompt is a string or a list of messages, each with a role and a content",
    7: "no text: column 'completion' is null",
    8: "shorten them",
}


@pytest.fixture(scope="module")
def writer():
    return tiny.writer(length=400, template=tiny.CHAT_TEMPLATE, name="writer")


@pytest.mark.parametrize("method", [None, "normxlogit", "occlusion"])
def test_sources_are_those_of_the_explainer(writer, tmp_path, method):
    path = jsonl(tmp_path / "in.jsonl", ROWS)
    job = Completions(sources="sentence", parts="word")
    done = attribute(writer, path, tmp_path / "out", job, method=method, id_column="key", keep_text=True, shard_rows=4)
    assert (done.rows, done.errors) == (9, 6)
    for row, reason in errors(tmp_path / "out").items():
        assert FAILED[row] in reason
    assert errors(tmp_path / "out").keys() == FAILED.keys()
    table = results(tmp_path / "out").to_pylist()
    assert [row["id"] for row in table] == ["a", "b", "g"]
    loaded = [one for i in range(2) for one in normxlogit.load(tmp_path / f"out/shards/{i:08}.parquet")]
    for row, read in zip(table, loaded, strict=True):
        given = ROWS[row["row"]]
        if method == "occlusion":  # of sources, not of tokens
            completed = read_completion(writer._model, given["prompt"], given["completion"])
            own = explain_sources(writer._model, completed, Options(method=method_named(method)), "sentence", "word")
        else:
            own = writer.explain_completion(given["prompt"], given["completion"], method=method)
            own = own.sources("sentence", parts="word")
        np.testing.assert_allclose(np.reshape(row["scores"], row["shape"]), own.scores, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(row["shares"], own.whole().shares, rtol=1e-5, atol=1e-6)
        assert row["units"] == list(own.units.text)
        assert (row["text"], row["completion"], row["method"]) == (own.text, own.completion, own.method)
        np.testing.assert_allclose(read.scores, own.scores, rtol=1e-5, atol=1e-6)
        assert (read.units, read.targets, read.quantity) == (own.units, own.targets, own.quantity)
        assert dict(read.settings) == dict(own.settings)


def test_without_texts_only_the_completion_and_roles_are_written(writer, tmp_path):
    path = jsonl(tmp_path / "in.jsonl", ROWS[:2])
    attribute(writer, path, tmp_path / "out", Completions(sources="message"), keep_text=False)
    (row,) = [row for row in results(tmp_path / "out").to_pylist() if row["row"] == 1]
    assert row["unit_names"][:2] == ["system", "user"]
    assert not {"text", "units", "target"} & row.keys()
    file = tmp_path / "out/shards/00000000.parquet"
    assert b"mediocre" not in file.read_bytes()
    with pytest.raises(DataError, match="without their texts"):
        normxlogit.load(file)
    with pytest.raises(DataError, match="no words to summarise"):
        summarize(tmp_path / "out")
    for job, name in (
        (Completions(sources="word"), "sources"),
        (Completions(sources="message", parts="word"), "parts"),
    ):
        with pytest.raises(DataError, match=f"made with {name}"):
            attribute(writer, path, tmp_path / "out", job, keep_text=False)


def test_the_model_writes_where_nothing_is_given(writer, tmp_path):
    path = jsonl(tmp_path / "in.jsonl", [{"prompt": row["prompt"]} for row in ROWS])
    done = attribute(writer, path, tmp_path / "out", Completions(sources="sentence", max_new_tokens=3))
    assert errors(tmp_path / "out").keys() == {2, 3, 5, 8}
    assert done.rows == 9
    for row in results(tmp_path / "out").to_pylist():
        own = writer.generate(ROWS[row["row"]]["prompt"], max_new_tokens=3)
        assert row["completion"] == own.completion
        np.testing.assert_allclose(row["scores"], own.sources("sentence").scores[0], rtol=1e-4, atol=1e-5)
