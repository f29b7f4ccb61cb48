"""A corpus of conversations: which messages each answer rests on, and what all of them rest on."""

import json

import pyarrow.parquet as pq
import pytest

import normxlogit
from normxlogit import Conversations, attribute, summarize
from normxlogit.errors import DataError, InputError

from .corpora import errors, jsonl, results


def messages(question, answer, result='{"cat": "here", "keys": "there"}', tool="search"):
    call = {"id": "c1", "type": "function", "function": {"name": tool, "arguments": '{"movie": "the cat"}'}}
    return [
        {"role": "system", "content": "The plot is good."},
        {"role": "user", "content": question},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": result},
        {"role": "assistant", "content": answer},
    ]


def anthropic(question, answer):
    return [
        {"role": "user", "content": question},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "plot", "input": {"a": "the cat"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "a bad plot ."}]},
        {"role": "assistant", "content": [{"type": "text", "text": answer}]},
    ]


TWICE = [*messages("was it good ?", "the movie was great ."), *messages("why ?", "the plot .", tool="why")[1:]]
ROWS = [
    {"key": "a", "chat": messages("was it good ?", "It was. The cat is here.")},
    {"key": "b", "chat": anthropic("was it bad ?", "a bad plot .")},
    {"key": "c", "chat": TWICE},
    {"key": "d", "chat": json.dumps(messages("why ?", "The plot is good."))},
    {"key": "dd", "chat": json.dumps({"request": messages("why ?", "")[:4], "response": "the cat ."})},
    {"key": "e", "chat": None},
    {"key": "f", "chat": [{"role": "user", "content": "why ?"}]},
    {"key": "g", "chat": "no JSON"},
    {"key": "h", "chat": [{"role": "assistant", "content": "the cat ."}]},
    {"key": "i", "chat": [1, 2]},
    {"key": "j", "chat": messages("the cat " * 400, "the cat .")},
]


def test_conversations_are_cited_as_one_by_one_and_summed_up(reader, tmp_path):
    path, out = jsonl(tmp_path / "in.jsonl", ROWS), tmp_path / "out"
    done = attribute(reader, path, out, Conversations("chat"), id_column="key", keep_text=True, shard_rows=3)
    assert (done.rows, done.errors) == (11, 6)
    reasons = errors(out)
    assert sorted(reasons) == [5, 6, 7, 8, 9, 10]
    assert reasons[5] == "no conversation: column 'chat' is null"
    assert "the assistant says nothing" in reasons[6]
    assert "expected a list of messages" in reasons[7]
    assert "the answer is the first message" in reasons[8]
    assert "expected" in reasons[9]
    assert "300" in reasons[10]
    files = sorted((out / "shards").iterdir())
    loaded = [result for file in files if len(pq.read_table(file)) for result in normxlogit.load(file)]
    rows, sentences, unsupported, uses = results(out).to_pylist(), 0, 0, {}
    assert [row["id"] for row in rows] == ["a", "b", "c", "d", "dd"]
    for given, row, result in zip(ROWS, rows, loaded, strict=False):
        chat = json.loads(given["chat"]) if isinstance(given["chat"], str) else given["chat"]
        cited = reader.cite(messages=chat, verify=0)
        assert result.messages == cited.messages
        assert result.question == cited.question
        assert result.notes == cited.notes
        assert result.attribution.scores == pytest.approx(cited.attribution.scores, abs=1e-5)
        assert [s.verdict for s in result.support] == [s.verdict for s in cited.support]
        assert row["message_names"] == [m.name for m in cited.messages]
        assert row["message_kinds"] == [m.role for m in cited.messages]
        assert sum(row["message_shares"]) == pytest.approx(float(cited.shares.sum()), abs=1e-5)
        assert row["sentence_messages"] == [list(dict.fromkeys(s.messages)) for s in cited.support]
        sentences += len(cited.support)
        unsupported += sum(not s.rests for s in cited.support)
        last = max(i for i, m in enumerate(cited.messages) if m.role == "user")
        citing = {name for s in cited.support for name in s.messages}
        for key in {(("question" if i == last else m.role), m.tool) for i, m in enumerate(cited.messages)}:
            of_key = [i for i, m in enumerate(cited.messages) if key == ("question" if i == last else m.role, m.tool)]
            share = sum(row["message_shares"][i] for i in of_key)
            there, number, shares = uses.get(key, (0, 0, 0.0))
            number += any(cited.messages[i].name in citing for i in of_key)
            uses[key] = there + 1, number, shares + share
    summary = summarize(out)
    assert (summary.rows, summary.errors, summary.complete, summary.model) == (5, 6, True, "reader")
    assert (summary.sentences, summary.unsupported) == (sentences, unsupported)
    assert {(m.kind, m.tool): (m.conversations, m.cited) for m in summary.messages} == {
        key: (there, number) for key, (there, number, _) in uses.items()
    }
    for use in summary.messages:
        there, _, share = uses[use.kind, use.tool]
        assert use.share == pytest.approx(share / there, abs=1e-5)
    assert ("assistant", "") in uses
    unused = {tool for (kind, tool), (_, number, _) in uses.items() if kind == "tool result" and not number}
    assert {tool.tool for tool in summary.never_used} == unused
    assert sum(answer.unsupported for answer in summary.worst) == summary.unsupported
    json.dumps(summary.to_dict())
    with pytest.raises(InputError, match="labels"):
        summarize(out, gold="key")


def test_an_earlier_turn_is_explained(reader, tmp_path):
    attribute(reader, ROWS[:3], tmp_path / "out", Conversations("chat", turn=1), shard_rows=2)
    assert errors(tmp_path / "out") == {
        0: "no turn 1: the assistant has 1 texts in this conversation, from 0 on",
        1: "no turn 1: the assistant has 1 texts in this conversation, from 0 on",
    }
    (row,) = results(tmp_path / "out").to_pylist()
    assert row["completion"].strip() == "the plot ."
    with pytest.raises(DataError, match="turn"):
        attribute(reader, ROWS[:3], tmp_path / "out", Conversations("chat", turn=0), shard_rows=2)
