"""The notebooks of `examples/` run from top to bottom."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import tiny
from tests.pipeline.test_cite import TEMPLATE

pytest.importorskip("nbclient")
ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted(ROOT.glob("examples/*.ipynb"))


@pytest.fixture(scope="module")
def writer(tmp_path_factory):
    """A folder with a tiny model that writes, in the place of the one that is 90 MB."""
    folder = tmp_path_factory.mktemp("writer")
    tokenizer = tiny.tokenizer_for("llama")
    tokenizer.model_max_length, tokenizer.chat_template = 400, TEMPLATE
    tokenizer.save_pretrained(folder)
    tiny.model("llama", "CausalLM").save_pretrained(folder)
    return folder


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run(path, writer, tmp_path):
    source = [str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    own = {"CITING_MODEL": str(writer), "PYTHONPATH": os.pathsep.join(source), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(ROOT / "scripts" / "run_notebook.py"), str(path)]
    done = subprocess.run(command, env=os.environ | own, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    code = [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert done.stdout == f"{len(code)} of {len(code)} cells\n"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_show_what_they_print_and_are_small(path):
    """They are kept with their output, for people who only read them."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert any(cell["outputs"] for cell in code)
    assert not any(output.get("output_type") == "error" for cell in code for output in cell["outputs"])
    assert "/tmp/" not in path.read_text(encoding="utf-8")
    assert path.stat().st_size < 400_000
    assert notebook["cells"][0]["source"][0].startswith("# ")
