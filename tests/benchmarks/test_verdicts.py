import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks import verdicts
from benchmarks.commands import app

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
