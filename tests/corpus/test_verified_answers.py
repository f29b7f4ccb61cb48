"""A corpus of answers and of conversations whose citations are tested: as one by one, in columns, and summed up."""

import json
from collections import Counter

import numpy as np
import pyarrow.parquet as pq
import pytest

import normxlogit
from normxlogit import Answers, Conversations, Explainer, attribute, summarize
from normxlogit.errors import DataError, InputError, MethodError
from tests import tiny
from tests.commands import run

from .corpora import errors, jsonl, results

DOCUMENTS = {
    "refunds.txt": "Refunds are possible within 30 days. Shipping takes 5 days.",
    "pool.txt": "The pool was built in 1974.",
}
ANSWERS = [
    {"question": "When?", "documents": DOCUMENTS, "answer": "Refunds are possible within 5 days. Built in 1974."},
    {"question": "How long?", "documents": DOCUMENTS, "answer": "It takes 30 days. Have a nice day!"},
    {"question": "When?", "documents": ["Opens at 9.", "Closes at 17."], "answer": "Opens at 17."},
    {"question": "Why?", "documents": ["No value here."], "answer": "Nobody knows."},
    {"question": "Why?", "documents": ["No value here."], "answer": ""},
]


def chat(question, answer, result='{"ships": "9 May", "order": 538}'):
    call = {"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": '{"order": 538}'}}
    return [
        {"role": "system", "content": "Memory: it ships on 2 May."},
        {"role": "user", "content": question},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": result},
        {"role": "assistant", "content": answer},
    ]


CHATS = [
    {"messages": chat("When does it ship?", "It ships on 9 May.")},
    {"messages": chat("When does it ship?", "It ships on 2 May. Yes!")},
    {"messages": chat("When?", "On 4 May.", "It ships on 4 May or on 7 May.")},
    {"messages": [{"role": "user", "content": "When?"}]},
]


@pytest.fixture(scope="module")
def reader():
    model = tiny.model("llama", "CausalLM", seed=5, vocab_size=100, max_position_embeddings=700)
    return Explainer(model, tiny.letters(), name="reader")


def cited_row(reader, row, verify):
    if "messages" in row:
        return reader.cite(messages=row["messages"], verify=verify)
    return reader.cite(row["question"], row["documents"], answer=row["answer"], verify=verify)


def is_same_test(result, cited):
    tested, expected = result.verified, cited.verified
    np.testing.assert_allclose(result.source_losses, cited.source_losses, atol=1e-4)  # where one is NaN the other is
    np.testing.assert_allclose(result.sentence_losses, cited.sentence_losses, atol=1e-4)
    np.testing.assert_allclose(tested.original.values, expected.original.values, atol=1e-4)
    assert [s._replace(margin=0.0) for s in tested.swaps] == [s._replace(margin=0.0) for s in expected.swaps]
    assert [s.margin for s in tested.swaps] == pytest.approx([s.margin for s in expected.swaps], abs=1e-4)
    return True


OPTIONS = {"answers": ["--answer-column", "answer"], "conversations": ["--messages-column", "messages", "--turn", "-1"]}
CASES = {"answers": (ANSWERS, Answers), "conversations": (CHATS, Conversations)}


ROWS = (ANSWERS, CHATS)


@pytest.mark.parametrize("verify", ["auto", 2, 99])
@pytest.mark.parametrize("case", CASES)
def test_rows_are_tested_as_one_by_one_and_summed_up(reader, tmp_path, case, verify):
    rows, job = CASES[case]
    done = attribute(reader, rows, tmp_path / "out", job(verify=verify), keep_text=True, shard_rows=2)
    assert done.errors == 1
    assert list(errors(tmp_path / "out")) == [len(rows) - 1]
    loaded = [r for file in sorted((tmp_path / "out/shards").iterdir()) for r in normxlogit.load(file)]
    written = results(tmp_path / "out").to_pylist()
    expected = [cited_row(reader, row, verify) for row in rows[:-1]]
    for result, cited, row in zip(loaded, expected, written, strict=True):
        assert is_same_test(result, cited)
        assert [s.verdict for s in result.support] == [s.verdict for s in cited.support]
        assert result.cited == cited.cited
        assert row["sentence_verdicts"] == [s.judgement for s in cited.support]
        assert row["sentence_losses"] == pytest.approx([s.loss for s in cited.support], abs=1e-4)
        for contradiction, sentence in zip(row["sentence_contradictions"], cited.support, strict=True):
            swap = sentence.contradiction
            assert (contradiction is None) == (swap is None)
            if swap is not None:
                kept = {name: contradiction[name] for name in ("value", "other", "source")}
                assert kept == {"value": swap.value, "other": swap.other, "source": swap.source}
                assert contradiction["document"] == cited.documents[cited.names.index(swap.source)]
                assert contradiction["document"] + ":" in contradiction["source"] + ":"
        units = np.array(row["source_losses"], float).reshape(row["shape"])
        np.testing.assert_allclose(units[:, cited.sources], cited.source_losses, atol=1e-4)
        assert np.isnan(np.delete(units, cited.sources, axis=1)).all()
    summary = summarize(tmp_path / "out")
    support = [sentence for cited in expected for sentence in cited.support]
    verdicts = Counter(sentence.judgement for sentence in support)
    assert (summary.verify, summary.sentences) == (verify, len(support))
    assert (summary.resting, summary.contradicting) == (verdicts["rests"], verdicts["contradicts"])
    assert summary.unsupported == verdicts["does not rest"]
    swaps = sorted((s.contradiction for s in support if s.contradiction), key=lambda swap: swap.margin)
    assert [(c.value, c.other, c.source) for c in summary.contradictions] == [
        (swap.value, swap.other, swap.source) for swap in swaps
    ]
    assert {c.text for c in summary.contradictions} == {s.text for s in support if s.contradiction}
    uses = expected_uses(expected)
    listed = summary.documents if case == "answers" else summary.messages
    named = {one[0] if case == "answers" else (one.kind, one.tool): one.measured for one in listed}
    assert named.keys() == uses.keys()
    for name, (left_out, used, contradicted, losses) in uses.items():
        assert named[name][:3] == (left_out, used, contradicted)
        assert (named[name].loss is None) == (not losses)
        assert not losses or named[name].loss == pytest.approx(np.mean(losses), abs=1e-4)
    json.dumps(summary.to_dict())
    if case == "conversations":
        citing = any(m.cited or m.measured.used for m in summary.messages if m.kind == "tool result")
        assert [tool.tool for tool in summary.never_used] == ([] if citing else ["look_up"])


def expected_uses(results_of_rows):
    """What is measured of each document, or kind of message with its tool, from results."""
    uses = {}
    for cited in results_of_rows:
        losses = np.fmax.reduce(cited.source_losses)
        kinds = {m.name: (m.role, m.tool) for m in cited.messages}
        last = max((i for i, m in enumerate(cited.messages) if m.role == "user"), default=None)
        if last is not None:
            kinds[cited.messages[last].name] = ("question", "")
        against = {cited.documents[cited.names.index(s.contradiction.source)] for s in cited.support if s.contradiction}
        against = {kinds.get(name, name) for name in against}
        named = [kinds.get(name, name) for name in cited.documents]
        every = set(named) | set(kinds.values())
        for key in every:
            left_out, used, contradicted, most = uses.get(key, (0, 0, 0, []))
            of_key = [loss for name, loss in zip(named, losses, strict=True) if name == key and not np.isnan(loss)]
            most = most + ([max(of_key)] if of_key else [])
            used += bool(of_key) and max(of_key) > 1
            uses[key] = left_out + bool(of_key), used, contradicted + (key in against), most
    return uses


def test_the_rows_hold_every_verdict(reader):
    verdicts = [{s.judgement for row in rows[:-1] for s in cited_row(reader, row, "auto").support} for rows in ROWS]
    assert all(verdict >= {"contradicts", "does not rest"} for verdict in verdicts)
    assert "rests" in set().union(*verdicts)


def test_a_stopped_run_goes_on_and_another_count_is_another_run(reader, tmp_path):
    path, out = jsonl(tmp_path / "in.jsonl", ANSWERS), tmp_path / "out"

    def interrupt(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        attribute(reader, path, out, Answers(verify=1), shard_rows=1, watch=interrupt)
    assert 0 < len(results(out)) < len(ANSWERS) - 1
    for other in (None, 0, 2, "auto"):
        with pytest.raises(DataError, match="made with verify 1, not"):
            attribute(reader, path, out, Answers(verify=other), shard_rows=1)
    attribute(reader, path, out, Answers(verify=1), shard_rows=1)
    attribute(reader, path, tmp_path / "whole", Answers(verify=1), shard_rows=1)
    assert results(out).equals(results(tmp_path / "whole"))
    assert attribute(reader, path, out, Answers(verify=1), shard_rows=1).fresh == 0
    attribute(reader, path, tmp_path / "plain", Answers(), shard_rows=1)
    with pytest.raises(DataError, match="made with verify null, not 1"):
        attribute(reader, path, tmp_path / "plain", Answers(verify=1), shard_rows=1)
    assert attribute(reader, path, tmp_path / "plain", Answers(verify=0), shard_rows=1).fresh == 0
    columns = {"sentence_losses", "sentence_contradictions", "source_losses", "swaps"}
    assert columns <= set(results(out).column_names)
    assert not columns & set(results(tmp_path / "plain").column_names)
    plain = summarize(tmp_path / "plain")
    assert (plain.verify, plain.contradicting, plain.contradictions) == (None, None, [])
    assert {document.measured for document in plain.documents} == {None}


def test_without_texts_examples_are_answers(reader, tmp_path):
    attribute(reader, ANSWERS, tmp_path / "out", Answers(answer_column="answer", verify="auto"))
    summary = summarize(tmp_path / "out", top=1)
    assert [c.text.strip() for c in summary.contradictions] == [ANSWERS[int(summary.contradictions[0].id)]["answer"]]


@pytest.mark.parametrize("verify", [-1, 1.5, True, "all", [1]])
def test_what_is_no_number_is_refused(reader, tmp_path, verify):
    with pytest.raises(InputError, match="verify"):
        attribute(reader, ANSWERS, tmp_path / "out", Answers(answer_column="answer", verify=verify))
    assert not (tmp_path / "out").exists()


def test_what_was_not_tested_is_not_tested_later(reader, tmp_path):
    attribute(reader, ANSWERS, tmp_path / "run", Answers())
    with pytest.raises(InputError, match="when they are attributed"):
        summarize(tmp_path / "run", verify=3, explainer=reader)


def test_scores_that_do_not_add_up_are_tested_without_a_verdict(reader, tmp_path):
    attribute(reader, ANSWERS, tmp_path / "out", Answers(answer_column="answer", verify=1), method="occlusion")
    rows = results(tmp_path / "out").to_pylist()
    assert [row["sentence_verdicts"] for row in rows] == [[]] * len(rows)
    for row, given in zip(rows, ANSWERS, strict=False):
        cited = reader.cite(given["question"], given["documents"], answer=given["answer"], method="occlusion", verify=1)
        assert row["sentence_losses"] == pytest.approx(cited.sentence_losses.tolist(), abs=1e-4)
    with pytest.raises(DataError, match="add up"):
        summarize(tmp_path / "out")
    with pytest.raises(MethodError):
        attribute(reader, ANSWERS, tmp_path / "no", Answers(answer_column="answer", verify=1), method="no-method")


@pytest.mark.parametrize("case", CASES)
def test_commands_test_citations_and_sum_them_up(tmp_path, capsys, reader, case):
    rows, _ = CASES[case]
    reader.model.save_pretrained(tmp_path / "model")
    reader.tokenizer.save_pretrained(tmp_path / "model")
    data, out = jsonl(tmp_path / "in.jsonl", rows), tmp_path / "out"
    options = ["--model", tmp_path / "model", *OPTIONS[case], "--output", out]
    code, _, err = run(capsys, "attribute", data, *options, "--verify", "auto", "--keep-text")
    assert code == 0, err
    code, text, err = run(capsys, "summarize", out)
    assert code == 0, err
    text = " ".join(text.split())
    of_case = ["refunds.txt"] if case == "answers" else ["tool result look_up", "last message of the user"]
    for part in (
        "that contradict a source",
        "likelier",
        "left out",
        "used",
        "mean loss",
        "if it loses 1 nat",
        *of_case,
    ):
        assert part in text
    code, _, err = run(capsys, "summarize", out, "--output", tmp_path / "page.html")
    assert code == 0, err
    assert "Sentences that contradict a source" in (tmp_path / "page.html").read_text()
    code, _, err = run(capsys, "attribute", data, *options, "--verify", "many")
    assert (code, "verify" in err) == (2, True)
    (file, *_) = sorted((out / "shards").iterdir())
    assert "swaps" in pq.read_table(file).column_names
