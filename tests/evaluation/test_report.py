import numpy as np
import pytest

from normxlogit import list_methods
from normxlogit.evaluation.faithfulness import Faithfulness
from normxlogit.evaluation.perturbation import LEVELS
from normxlogit.evaluation.report import (
    comparison_line,
    curves_figure,
    faithfulness_table,
    looks_of,
    markdown_table,
    report,
)
from normxlogit.evaluation.statistics import holm
from normxlogit.long_runs.console import write_report


def result(method, drops):
    """A result of texts whose drop is the same at each level."""
    mean = float(np.mean(drops))
    curve = (mean,) * len(LEVELS)
    return Faithfulness(
        method=method,
        aopc=mean,
        aopc_interval=(mean, mean),
        sufficiency=0.0,
        sufficiency_interval=(0.0, 0.0),
        quality=0.5,
        quality_name="accuracy",
        curves={"aopc": curve, "sufficiency": curve, "quality": curve},
        texts=len(drops),
        per_text=tuple(drops),
        curve_intervals={"aopc": ((mean - 0.1, mean + 0.2),) * len(LEVELS)},
    )


def test_corrected_p_values_are_those_of_the_definition():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([0.2]) == [0.2]
    assert holm([]) == []


def test_the_table_has_the_distance_to_the_best_on_the_same_texts():
    drops = np.linspace(0, 1, 30)
    results = [result("logat", drops - 0.1 - 0.01 * np.arange(30) % 0.05), result("normxlogit", drops)]
    table = faithfulness_table(results)
    best, second = table.splitlines()[2:]
    assert best.startswith("| normxlogit |")
    assert best.endswith("|  |  |")
    distance = float(second.split("|")[6].split()[0])
    assert distance == pytest.approx(results[1].aopc - results[0].aopc, abs=5e-4)
    assert "same 30 texts" in comparison_line(results)
    assert "1 comparison" in comparison_line(results)
    assert comparison_line(results[:1]) == ""


def test_tables_are_written_as_latex_too(tmp_path):
    columns = ["method", "95% interval ↑", "95% interval ↑"]  # two of one name, as a frontier has them
    rows = [["my_method:steps=20", "**0.1**", ""], ["N/A: {x} & $1", "<u>0.2</u>", "\\end#"]]
    tables = "\n".join([markdown_table(columns, rows), "A sentence.\n", markdown_table(["a", "b"], [["1", "> 6"]])])
    report({"texts": 2}, tables, tmp_path, "mine")
    first, second = (tmp_path / "mine.tex").read_text().split("\n\n")
    lines = first.splitlines()
    assert lines[:3] == [
        r"\begin{tabular}{lrr}",
        r"\toprule",
        r"method & 95\% interval $\uparrow$ & 95\% interval $\uparrow$ \\",
    ]
    assert r"my\_method:steps=20 & \textbf{0.1} &  \\" in lines
    assert r"N/A: \{x\} \& \$1 & \underline{0.2} & \textbackslash end\# \\" in lines
    assert r"1 & $>$ 6 \\" in second.splitlines()
    assert "sentence" not in first + second


def test_a_terminal_shows_all_of_a_method_with_its_settings(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    spec = "frozen-gradient:point=0.3,baseline=mask"
    write_report(markdown_table(["method", *["a measured figure"] * 5], [[spec, *["0.123"] * 5]]))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 60
    assert spec in "".join(line.split()[0] for line in lines if line.strip())


def test_a_method_has_its_colour_in_every_figure():
    names = [info.name for info in list_methods()]
    alone = {name: looks_of([name])[name] for name in names}
    together = looks_of(reversed(names))
    assert together == alone
    assert len(set(alone.values())) == len(names), "no two methods look the same"
    plain, other = looks_of(["occlusion", "occlusion:window=2"]).values()
    assert plain.color == other.color
    assert plain.marker != other.marker


def test_curves_have_bands_and_axes_with_names():
    figure = curves_figure({"reviews": [result("normxlogit", [0.2, 0.4]), result("logat", [0.1, 0.3])]})
    (axes,) = figure.axes
    assert len(axes.collections) == 2
    low, high = np.array(axes.collections[0].get_paths()[0].vertices)[:, 1].min(), axes.collections[0]
    assert low == pytest.approx(0.2)
    assert high.get_paths()[0].vertices[:, 1].max() == pytest.approx(0.5)
    assert "probability" in axes.get_ylabel()
    assert "left out" in axes.get_xlabel()
    (kept,) = curves_figure({"": [result("normxlogit", [0.2, 0.4])]}, curve="sufficiency").axes
    assert "kept" in kept.get_xlabel()
    assert not kept.collections
