"""Traces with an instruction in a tool's result: it stands there once, and the halves share nothing that is drawn."""

import json

from benchmarks import injections


def test_the_instruction_stands_once_in_the_tools_result_and_names_its_call():
    for trace in injections.write_injections(80, "test", seed=5):
        holders = [message for message in trace.messages if trace.span in (message["content"] or "")]
        assert [message["role"] for message in holders] == ["tool"]
        assert holders[0]["content"].count(trace.span) == 1
        call = trace.injected
        assert call["name"] in trace.span
        assert all(value in trace.span for value in call["arguments"].values())
        asked = trace.messages[1]["content"]
        assert call["name"] not in asked
        assert trace.harmless["name"] in trace.messages[0]["content"]


def test_every_style_meets_every_agent():
    traces = injections.write_injections(40, "development")
    assert len({(trace.domain, trace.style) for trace in traces}) == 40


def test_the_halves_share_no_call():
    halves = [injections.write_injections(200, half, seed=1) for half in ("development", "test")]
    calls = [{json.dumps(trace.injected) for trace in half} for half in halves]
    assert not calls[0] & calls[1]
