import ast
import contextlib
import io
import json
from pathlib import Path

import pytest

from tests import tiny
from tests.same_text import same
from tests.test_docs import FIGURE, states

pytest.importorskip("nbclient")

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted(ROOT.glob("examples/*.ipynb"))


@pytest.fixture(scope="module")
def writer(tmp_path_factory):
    """A folder with a tiny model that writes, in the place of the one that is 90 MB."""
    return tiny.save(tmp_path_factory.mktemp("writer"), "llama", "CausalLM", length=400, chats=True)


def code_cells(path):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


OTHERWISE = {
    "3-citations": "a tiny model stands in for the one that wrote the answers",
    "4-frontier": "times, and eight texts in the place of thirty",
}
"""Notebooks that print something else here, each with the reason."""


def printed_by(cell):
    return "".join("".join(output["text"]) for output in cell["outputs"] if output["output_type"] == "stream")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_figures_in_the_prose_are_among_what_the_cells_show(path):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    outputs = [output for cell in code_cells(path) for output in cell["outputs"]]
    shown = " ".join("".join(o.get("text", []) or o.get("data", {}).get("text/plain", [])) for o in outputs)
    for cell in notebook["cells"]:
        prose = "".join(cell["source"]) if cell["cell_type"] == "markdown" else ""
        for figure in FIGURE.findall(prose):
            assert states(figure, shown), f"{path.name}: {figure} in {prose!r}"


@pytest.mark.filterwarnings("ignore")  # as in a notebook, which shows warnings and goes on
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run(path, writer, tmp_path, monkeypatch, few_examples):
    """Cell after cell in this process; what a cell ends in is drawn as a notebook draws it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CITING_MODEL", str(writer))
    names = {}
    for cell in code_cells(path):
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(tree, path.name, "exec"), names)
            shown = last and eval(compile(ast.Expression(last.value), path.name, "eval"), names)
        if path.stem not in OTHERWISE:
            assert same(printed.getvalue(), printed_by(cell)), f"run scripts/run_notebook.py {path.name} --keep"
        for draw in ("_repr_html_", "_repr_png_"):
            getattr(shown, draw, str)()
