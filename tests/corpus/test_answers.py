"""A corpus of answers from elsewhere: their citations in Parquet, and which documents and sentences have none."""

import json

import pyarrow.parquet as pq
import pytest

import normxlogit
from normxlogit import Answers, attribute, summarize
from normxlogit.errors import InputError

from .corpora import errors, jsonl

CAT = {"text": "the cat sat .", "metadata": {"source": "x.txt"}}
ROWS = [
    {
        "key": "a",
        "question": "was it good ?",
        "documents": ["the movie was great .", "the cat sat ."],
        "answer": "It was. The cat sat.",
    },
    {
        "key": "b",
        "question": "was it bad ?",
        "documents": {"x.txt": "the plot is bad . the keys are bad ."},
        "answer": "a bad plot .",
    },
    {"key": "c", "question": "why ?", "documents": [CAT], "answer": "the cat ."},
    {"key": "d", "question": None, "documents": ["the cat"], "answer": "the cat ."},
    {"key": "e", "question": "why ?", "documents": [], "answer": "the cat ."},
    {"key": "f", "question": "why ?", "documents": ["the cat"], "answer": " "},
    {"key": "g", "question": "why ?", "documents": ["the cat"], "answer": None},
]
FAILED = {
    3: "no text: column 'question' is null",
    4: "column 'documents': there is no document with a text",
    5: "the answer is empty",
    6: "no text: column 'answer' is null",
}


def test_answers_are_cited_as_one_by_one_and_summed_up(reader, tmp_path):
    path, out = jsonl(tmp_path / "in.jsonl", ROWS), tmp_path / "out"
    done = attribute(reader, path, out, Answers(answer_column="answer"), id_column="key", keep_text=True, shard_rows=3)
    assert (done.rows, done.errors) == (7, 4)
    assert errors(out) == FAILED
    files = sorted((out / "shards").iterdir())
    loaded = [result for file in files[:1] for result in normxlogit.load(file)]
    written = [row for file in files for row in pq.read_table(file).to_pylist()]
    used, counts = {}, [0, 0]
    for row, kept, result in zip(ROWS[:3], written, loaded, strict=True):
        cited = reader.cite(row["question"], row["documents"], answer=row["answer"], verify=0)
        assert result.attribution.scores == pytest.approx(cited.attribution.scores, abs=1e-5)
        assert type(result) is type(cited)
        assert result.support == cited.support or [s.verdict for s in result.support] == [
            s.verdict for s in cited.support
        ]
        assert kept["sentence_shares"] == pytest.approx([s.share for s in cited.support], abs=1e-5)
        names = {c.number: c.name for c in cited.citations()}
        assert kept["sentence_sources"] == [[names[n] for n in s.citations] for s in cited.support]
        assert tuple(kept["unit_names"][:-2]) == cited.names
        documents = {name.rpartition(":")[0] for name in cited.names}
        for name in documents:
            there, citing = used.get(name, (0, 0))
            used[name] = (
                there + 1,
                citing + any(n.rpartition(":")[0] == name for ns in kept["sentence_sources"] for n in ns),
            )
        counts[0] += len(cited.support)
        counts[1] += sum(not s.rests for s in cited.support)
    summary = summarize(out)
    assert (summary.rows, summary.errors, summary.complete, summary.model) == (3, 4, True, "reader")
    assert (summary.sentences, summary.unsupported) == tuple(counts)
    assert {d.name: (d.answers, d.cited) for d in summary.documents} == used
    assert set(used) == {"document 1", "document 2", "x.txt"}
    assert summary.never_used == sum(citing == 0 for _, citing in used.values())
    assert [d.cited for d in summary.documents] == sorted(d.cited for d in summary.documents)
    assert sum(answer.unsupported for answer in summary.worst) == summary.unsupported
    json.dumps(summary.to_dict())
    with pytest.raises(InputError, match="labels"):
        summarize(out, gold="key")
