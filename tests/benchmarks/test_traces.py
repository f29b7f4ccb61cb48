"""Synthetic traces: where the evidence is, and what is counted."""

import json

import pytest

from benchmarks.traces import KINDS, holds, write_traces
from normxlogit.grounding.documents.conversations import read_conversation


def test_each_trace_holds_its_fact_in_one_source():
    traces = write_traces(60)
    assert [trace.kind for trace in traces[: len(KINDS)]] == list(KINDS)
    assert write_traces(60) == traces != write_traces(60, seed=1)
    for trace in traces:
        before, answer = read_conversation(trace.messages).until()
        assert holds(answer.text, trace.value)
        holding = [message.kind for message in before.messages if holds(message.text, trace.value)]
        holders = {"the system text": "system", "the user's message": "user"}
        assert holding == [holders.get(trace.kind, "tool result")]
        results = [message.text for message in before.messages if message.kind == "tool result"]
        assert len(results) == {**dict.fromkeys(holders, 0), "a tool, with an outdated memory": 1}.get(trace.kind, 5)
        if trace.kind == "a field of JSON":
            assert all(isinstance(json.loads(text), dict) for text in results)


@pytest.mark.parametrize(("text", "expected"), [("room 34.", True), ("34", True), ("room 134", False), ("340", False)])
def test_a_value_is_not_a_piece_of_another(text, expected):
    assert holds(text, "34") == expected
