"""The coefficients of verdicts, and the figures on how often they are right, are printed by one command."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks import verdicts
from benchmarks.commands import app
from tests import tiny
from tests.commands import run

PAGE = Path(__file__).parents[2] / "docs" / "grounding.md"


def test_the_command_fits_what_is_in_the_package_and_prints_the_tables_of_the_page(tmp_path):
    output = tmp_path / "verdicts.json"
    result = CliRunner().invoke(app, ["verdicts", "--output", str(output)])
    assert result.exit_code == 0, result.output
    fitted, packaged = (json.loads(path.read_text("utf-8")) for path in (output, verdicts.FITTED))
    for question in ("covered", "agreed"):  # solvers differ in the last digits
        assert fitted[question].pop("weights") == pytest.approx(packaged[question].pop("weights"), abs=1e-3)
        assert fitted.pop(question) == pytest.approx(packaged.pop(question), abs=1e-3)
    assert fitted == packaged
    tables = verdicts.tables(verdicts.measured_sentences(verdicts.MEASURED))
    assert len(tables) == 4
    for table in tables.values():
        assert table.strip() in result.output
        assert table.strip() in PAGE.read_text("utf-8")


def test_packed_sentences_have_the_verdicts_of_the_report(tmp_path, capsys):
    data, out, packed = tmp_path / "pairs.jsonl", tmp_path / "out", tmp_path / "measured.jsonl"
    row = {
        "question": "When?",
        "documents": {"a": "the pool was opened in 1974 ."},
        "pairs": [["number", "it was in 1974 .", "it was in 1980 ."]],
    }
    data.write_text(json.dumps(row), "utf-8")
    folder = tiny.save(tmp_path / "writer", "llama", "CausalLM", length=300)
    command = ("evaluate", "grounding", "--data", data, "--model", folder, "--output", out)
    assert run(capsys, *command)[0] == 0
    assert CliRunner().invoke(app, ["pack", str(out / "grounding.json"), "--output", str(packed)]).exit_code == 0
    read = verdicts.measured_sentences(packed)
    reported = json.loads((out / "grounding.json").read_text("utf-8"))["sentences"]
    assert [m.statement.sentence for m in read] == row["pairs"][0][1:]
    assert [m.verdict.judgement for m in read] == [m["verdict"]["judgement"] for m in reported]
    assert [m.verdict.agreed for m in read] == pytest.approx([m["verdict"]["agreed"] for m in reported], abs=1e-3)
