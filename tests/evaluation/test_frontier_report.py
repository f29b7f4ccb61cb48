"""The frontier as a table and a figure."""

import pytest

from normxlogit.evaluation import frontier_report
from normxlogit.evaluation.frontier import Point
from tests.evaluation.test_frontier import POINTS


def test_the_table_begins_with_the_cheapest_and_marks_the_frontier():
    without_cost = Point("lime:samples=8", POINTS[0].result)
    lines = frontier_report.frontier_table([*POINTS, without_cost]).splitlines()[2:]
    assert [line.split("|")[1].strip() for line in lines] == [
        "random",
        "logat",
        "normxlogit",
        "frozen-gradient:read_at=-1",
        "frozen-gradient",
        "occlusion",
        "lime",
        "decompx",
    ]
    assert lines[0] == "| random | 1 | **0.250** | 0.200 to 0.300 | 0.100 | 0.020 to 0.200 |"
    assert "| 0.280 |" in lines[3]
    assert lines[-1] == "| decompx | N/A: needs an encoder / of some kind |  |  |  |  |"


def test_a_line_joins_what_no_other_setting_beats():
    axes, without = frontier_report.frontier_figure({"one": POINTS, "none": POINTS[-1:]}).axes
    line = axes.lines[0]
    assert line.get_xydata().tolist() == [[1.0, 0.25], [1.02, 0.3], [2.2, 0.5], [25.0, 0.6]]
    assert line.get_drawstyle() == "steps-post"
    assert line.get_zorder() < min(bar.lines[0].get_zorder() for bar in axes.containers), "it lies behind the points"
    assert not without.lines
    heights = [
        top - bottom
        for bar in axes.containers
        for lines in bar.lines[2]
        for (_, bottom), (_, top) in lines.get_segments()
    ]
    assert max(heights) == pytest.approx(0.1), "of intervals of 0.05 to both sides"
