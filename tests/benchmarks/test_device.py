"""The measurement of a GPU runs small on a CPU, and goes on past a section that fails."""

import json

from benchmarks import device


def test_every_section_measures_something(tmp_path):
    rows = list(device.measure(device.Setup.small()))
    errors = [row for row in rows if "error" in row.figures or "why" in row.figures]
    assert not errors
    for section in device.SECTIONS:
        assert len([row for row in rows if row.section == section]) > 1  # beside what it took
    exact = [row for row in rows if row.section == "exactness" and row.case.startswith("bert")]
    assert exact[0].figures["frozen-gradient fp32"] < 1e-5
    times = next(row.figures for row in rows if row.section == "classification")
    assert times["frozen-gradient x"] > times["bare pass ms"] / times["frozen-gradient ms"]
    assert json.loads(json.dumps(device.as_state(rows)))["rows"][0]["section"] == "arithmetic"


def test_a_section_that_fails_is_a_row(monkeypatch):
    def broken(_):
        raise RuntimeError("no such kernel")
        yield

    monkeypatch.setattr(device, "SECTIONS", {"broken": broken, "late": broken})
    rows = list(device.measure(device.Setup.small()))
    assert [row.section for row in rows] == ["broken", "broken", "late", "late"]
    assert "no such kernel" in device.line(rows[0])


def test_when_the_time_is_up_each_section_ends_with_its_first_row(monkeypatch):
    def long(_):
        for case in range(9):
            yield device.Row("long", str(case), {})

    monkeypatch.setattr(device, "SECTIONS", {"long": long})
    rows = list(device.measure(device.Setup(seconds=0)))
    assert [row.case for row in rows[:1]] == ["0"]
    assert len(rows) == 3
    assert "why" in rows[1].figures
