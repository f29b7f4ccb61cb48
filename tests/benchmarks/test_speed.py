"""The rows of speed: that every one is there and says what it compares. No clock is asked for its opinion."""

import json

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from benchmarks import speed
from benchmarks.ratios import Row, as_table
from benchmarks.speed import GROUPS
from tests.benchmarks.sizes import TINY, written


def test_every_group_measures_its_rows():
    rows = {name: list(speed.measure(TINY, [name])) for name in GROUPS}
    counts = {name: len(found) for name, found in rows.items()}
    assert counts == {
        "one-text": 8,
        "masked-lm": 1,
        "next-token": 2,
        "generated": 1,
        "first-call": 4,
        "from-outputs": 1,
        "corpus": 4,
        "gradients": 2,
        "decompx": 1,
    }
    for row in (r for found in rows.values() for r in found):
        assert len(row.figures) == TINY.rounds
        assert all(f > 0 for f in row.figures)
        assert row.seconds


def test_the_table_says_what_was_measured_and_whether_it_is_enough():
    rows = [Row("a", "work a", (1.0, 1.0123, 2.0), 1.02, seconds={"explain": 0.2}), Row("b", "b", (0.5,), 0.95, True)]
    first, second = as_table(rows).splitlines()[2:]
    assert first == "| work a (explain 200 ms) | ≤ 1.02 | 1.012 | 1.000 to 2.000 | pass |"
    assert second == "| b | ≥ 0.95 | 0.500 | 0.500 to 0.500 | **fail** |"


def test_a_larger_language_model_is_a_choice(monkeypatch, capsys):
    setups = []
    monkeypatch.setattr(speed, "measure", lambda setup, names, on_progress: setups.append(setup) or [])
    written(capsys, "speed", "--language-model", "llama-2-7b")
    written(capsys, "speed")
    large, small = (LlamaConfig(**setup.llama) for setup in setups)
    assert [(s.prompt, s.generated) for s in setups] == [(2048, 256), (256, 64)]
    assert large.dtype == torch.bfloat16
    with torch.device("meta"):
        counts = [LlamaForCausalLM(config).num_parameters() for config in (large, small)]
    assert counts == [6_738_415_616, 134_515_008], "what the models of these names have"


def test_speed_from_the_command_line(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(speed, "Setup", lambda **options: TINY)
    path = tmp_path / "speed.json"
    out = written(capsys, "speed", "--rows", "from-outputs masked-lm", "--output", path)
    assert "threads: " in out
    assert "normxlogit: " in out
    state = json.loads(path.read_text())
    assert [row["name"] for row in state["rows"]] == ["from-outputs", "masked-lm"]
    assert {"figure", "figures", "passed", "bound", "seconds"} <= state["rows"][0].keys()
    assert "torch" in state["environment"]
