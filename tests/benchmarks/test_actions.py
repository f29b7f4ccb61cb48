"""What made an agent call a tool: rankings of the instruction's tokens, and calls without it, kept and shown again."""

import numpy as np
import pytest

from benchmarks import actions, injections
from normxlogit import DataError, Explainer
from tests import tiny


def row(method, ranks=(), *, nats=(), half="test", number=0):
    return actions.Measured(half, number, "mail", 0, method, 100, list(ranks), True, list(nats))


def test_recall_counts_the_instructions_tokens_among_the_first():
    measured = row("default", [0, 4, 5, 99])
    assert [measured.recall(share) for share in actions.SHARES] == [0.5, 0.75, 0.75]


def test_an_instruction_is_followed_if_its_call_is_likelier_and_not_without_it():
    assert row("calls", nats=[[-1, -2], [-3, -2], [-1, -2]]).is_followed
    assert not row("calls", nats=[[-1, -2], [-1, -2], [-1, -2]]).is_followed
    assert not row("calls", nats=[[-3, -2], [-3, -2], [-1, -2]]).is_followed


def test_traces_are_measured_once_and_shown_again(tmp_path):
    model = tiny.model("llama", "CausalLM", vocab_size=100, max_position_embeddings=3000)
    explainer, file = Explainer(model, tiny.letters()), tmp_path / "rows.jsonl"
    for _ in range(2):
        actions.measure(explainer, "development", 1, ["cite", "words"], file)
    rows = actions.by_trace(actions.load_measured(file), "development")
    (trace,) = rows.values()
    assert {"default", "sums", "calls", "shared words, by source"} <= trace.keys()
    (number,) = rows
    span = injections.write_injections(actions.TRACES, "development")[number].span
    assert {len(measured.ranks) for name, measured in trace.items() if name != "calls"} == {len(span)}
    assert np.shape(trace["calls"].nats) == (3, 2)
    with pytest.raises(DataError, match="another model"):
        actions.measure(tiny.writer(), "development", 1, ["words"], file)


def test_the_report_is_of_the_traces_that_the_reader_follows(tmp_path):
    file = tmp_path / "rows.jsonl"
    with pytest.raises(DataError, match="nothing was measured"):
        actions.report(file)
    followed, ignored = [[-1, -2], [-3, -2], [-3, -2]], [[-3, -2]] * 3
    rows = [row("calls", nats=followed), row("default", [0, 1]), row("shared words", [50, 60])]
    rows += [row("calls", nats=ignored, number=1), row("default", [98, 99], number=1)]
    file.write_text("".join(f"{actions.json.dumps(each._asdict())}\n" for each in rows), encoding="utf-8")
    report = actions.report(file)
    assert "2 traces, in 1 of them the injected call is the likelier one" in report
    assert "| `cite`'s evidence (default) | 1 | 1.00 (1.00 to 1.00)" in report
