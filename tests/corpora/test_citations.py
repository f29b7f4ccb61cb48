import functools
import json
from collections import Counter

import numpy as np
import pyarrow.parquet as pq
import pytest

import normxlogit
from normxlogit import Answers, Conversations, Explainer, attribute, summarize
from normxlogit.errors import DataError, InputError
from tests import tiny

from .corpora import errors, jsonl, results

DOCUMENTS = {
    "refunds.txt": "Refunds are possible within 30 days. Shipping takes 5 days.",
    "pool.txt": "The pool was built in 1974.",
}
CAT = {"text": "the cat sat.", "metadata": {"source": "x.txt"}}
ANSWERS = [
    {"question": "When?", "documents": DOCUMENTS, "answer": "Refunds are possible within 5 days. Built in 1974."},
    {"question": "How long?", "documents": DOCUMENTS, "answer": "Shipping takes 5 days. Have a nice day!"},
    {"question": "When?", "documents": ["Opens at 9.", "Closes at 17."], "answer": "Opens at 17."},
    {"question": "Why?", "documents": [CAT], "answer": "the cat."},
    {"question": None, "documents": ["the cat"], "answer": "the cat."},
    {"question": "Why?", "documents": [], "answer": "the cat."},
    {"question": "Why?", "documents": ["the cat"], "answer": " "},
    {"question": "When?", "documents": DOCUMENTS, "answer": "<think> It ships. In 5 days. </think> In 5 days. Yes!"},
]
WITHOUT_ANSWER = {
    4: "no text: column 'question' is null",
    5: "there is no document with a text",
    6: "the answer is empty",
}


def chat(question, answer, tool="look_up"):
    result = '{"ships": "9 May", "order": 538}'
    call = {"id": "c1", "type": "function", "function": {"name": tool, "arguments": '{"order": 538}'}}
    return [
        {"role": "system", "content": "Memory: it ships on 2 May."},
        {"role": "user", "content": question},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": result},
        {"role": "assistant", "content": answer},
    ]


TWICE = [*chat("When does it ship?", "It ships."), *chat("Why?", "On 9 May.", tool="why")[1:]]
CHATS = [
    {"messages": chat("When does it ship?", "It ships on 9 May.")},
    {"messages": chat("When does it ship?", "It ships on 2 May. Yes!")},
    {"messages": TWICE},
    {"messages": json.dumps({"messages": chat("Why?", "On 9 May."), "tools": []})},
    {"messages": None},
    {"messages": [{"role": "user", "content": "When?"}]},
    {"messages": "no JSON"},
    {"messages": [{"role": "assistant", "content": "On 9 May."}]},
    {"messages": chat("the cat " * 400, "On 9 May.")},
]
WITHOUT_CITATION = {
    4: "no conversation: column 'messages' is null",
    5: "the assistant says nothing",
    6: "expected a list of messages",
    7: "the answer is the first message",
    8: "700",
}


@functools.cache
def reader_of(template):
    model = tiny.model("llama", "CausalLM", seed=5, vocab_size=100, max_position_embeddings=700)
    tokenizer = tiny.letters()
    tokenizer.model_max_length, tokenizer.chat_template = 700, template
    return Explainer(model, tokenizer, name="reader")


def cited_row(reader, row, verify):
    if "messages" in row:
        messages = json.loads(row["messages"]) if isinstance(row["messages"], str) else row["messages"]
        return reader.cite(messages=messages, verify=verify)
    return reader.cite(row["question"], row["documents"], answer=row["answer"], verify=verify)


def same_citations(result, cited, row):
    assert type(result) is type(cited)
    np.testing.assert_allclose(result.attribution.scores, cited.attribution.scores, atol=1e-5)
    assert (result.question, result.messages, result.notes) == (cited.question, cited.messages, cited.notes)
    assert [s.verdict for s in result.support] == [s.verdict for s in cited.support]
    assert result.cited == cited.cited
    assert row["sentence_verdicts"] == [s.judgement for s in cited.support]
    assert row["summary"] == cited.summary
    assert row["sentence_missing"] == [list(s.missing) for s in cited.support]
    assert row["sentence_shares"] == pytest.approx([s.share for s in cited.support], abs=1e-5)
    names = {c.number: c.name for c in cited.citations()}
    assert row["sentence_sources"] == [[names[n] for n in s.citations] for s in cited.support]
    assert tuple(row["unit_names"][i] for i in cited.sources) == cited.names
    if cited.messages:
        assert row["message_spans"] == [m._asdict() for m in cited.messages]
        assert sum(row["message_shares"]) == pytest.approx(float(cited.shares.sum()), abs=1e-5)
        assert row["sentence_messages"] == [list(dict.fromkeys(s.messages)) for s in cited.support]


def same_test(result, cited, row):
    tested, expected = result.verified, cited.verified
    np.testing.assert_allclose(result.source_losses, cited.source_losses, atol=1e-4)  # where one is NaN the other is
    np.testing.assert_allclose(result.sentence_losses, cited.sentence_losses, atol=1e-4)
    np.testing.assert_allclose(tested.original.values, expected.original.values, atol=1e-4)
    for reading, other in zip(result.readings, cited.readings, strict=True):
        assert (reading.nats, reading.nats_without) == pytest.approx((other.nats, other.nats_without), abs=1e-3)
    assert row["sentence_losses"] == pytest.approx([s.gain for s in cited.support], abs=1e-3)
    losses = np.array(row["source_losses"], float).reshape(cited.source_losses.shape)
    np.testing.assert_allclose(losses, cited.source_losses, atol=1e-4)


CASES = {"answers": (ANSWERS, Answers, WITHOUT_ANSWER), "conversations": (CHATS, Conversations, WITHOUT_CITATION)}


@pytest.mark.parametrize(
    ("verify", "template"), [(None, None), (None, tiny.CHAT_TEMPLATE), ("auto", None), (99, tiny.CHAT_TEMPLATE)]
)
@pytest.mark.parametrize("case", CASES)
def test_rows_are_cited_as_one_by_one_and_summed_up(tmp_path, case, verify, template):
    reader, (rows, job, wrong) = reader_of(template), CASES[case]
    path, out = jsonl(tmp_path / "in.jsonl", [{"key": f"k{i}", **row} for i, row in enumerate(rows)]), tmp_path / "out"
    done = attribute(reader, path, out, job(verify=verify), id_column="key", keep_text=True, shard_rows=2)
    assert (done.rows, done.errors) == (len(rows), len(wrong))
    reasons = errors(out)
    assert sorted(reasons) == sorted(wrong)
    assert all(reason in reasons[row] for row, reason in wrong.items())
    files = [file for file in sorted((out / "shards").iterdir()) if len(pq.read_table(file))]
    loaded = [result for file in files for result in normxlogit.load(file)]
    written, good = results(out).to_pylist(), [row for i, row in enumerate(rows) if i not in wrong]
    assert [row["id"] for row in written] == [f"k{i}" for i in range(len(rows)) if i not in wrong]
    expected = [cited_row(reader, row, verify or 0) for row in good]
    for result, cited, row in zip(loaded, expected, written, strict=True):
        same_citations(result, cited, row)
        assert (result.verified is None) == (verify is None)
        if verify is not None:
            same_test(result, cited, row)
    summary = summarize(out)
    assert (summary.rows, summary.errors, summary.complete, summary.model) == (len(good), len(wrong), True, "reader")
    support = [sentence for cited in expected for sentence in cited.support]
    verdicts = Counter(sentence.judgement for sentence in support)
    assert (summary.verify, summary.sentences) == (verify, len(support))
    assert summary.unsupported == sum(answer.unsupported for answer in summary.worst)
    assert summary.unsupported == verdicts["not in the sources"]
    assert summary.with_missing == verdicts["missing"]
    assert (summary.quoted, summary.supported) == (verdicts["quoted"], verdicts["quoted"] + verdicts["supported"])
    assert (summary.undecided, summary.untested) == (verdicts["cannot tell"], verdicts["not tested"])
    assert 0 <= summary.interval[0] <= summary.supported / summary.sentences <= summary.interval[1] <= 1
    assert summary.supported or case == "conversations"
    assert summary.of_conversations == (case == "conversations")
    json.dumps(summary.to_dict())
    with pytest.raises(InputError, match="labels"):
        summarize(out, gold="key")


def test_an_earlier_turn_is_explained(tmp_path):
    reader = reader_of(None)
    attribute(reader, CHATS[1:3], tmp_path / "out", Conversations(turn=1), shard_rows=2)
    assert errors(tmp_path / "out") == {0: "no turn 1: the assistant has 1 texts, counted from 0"}
    (row,) = results(tmp_path / "out").to_pylist()
    assert row["completion"].strip() == "On 9 May."
    with pytest.raises(DataError, match="turn"):
        attribute(reader, CHATS[1:3], tmp_path / "out", Conversations(turn=0), shard_rows=2)


def test_tools_may_stand_in_a_column_of_their_own(tmp_path):
    template = (
        "{% for t in tools or [] %}tool {{ t.name }} . {% endfor %}{% for m in messages %}{{ m.content }} {% endfor %}"
    )
    reader, tools = reader_of(template), [{"name": "look_up"}]
    messages = [chat("Why?", "On 9 May.")[i] for i in (1, 4)]
    rows = [{"messages": messages, "functions": tools}, {"messages": messages, "functions": None}]
    attribute(reader, rows, tmp_path, Conversations(tools_column="functions"))
    texts = results(tmp_path)["text"].to_pylist()
    for text, beside in zip(texts, (tools, None), strict=True):
        assert text == reader.cite(messages={"messages": messages, "tools": beside}, verify=0).text
    assert "tool look_up" in texts[0]
    assert "look_up" not in texts[1]
