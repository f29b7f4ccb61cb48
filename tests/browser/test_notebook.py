"""Results in the cells of a JupyterLab, which styles tables itself and drops styles where it does not trust."""

import os
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

from normxlogit import Attributions
from tests.browser.conftest import end
from tests.factories import all_labels, make_attribution, make_generation

pytest.importorskip("jupyterlab", reason="no JupyterLab: pip install 'normxlogit[test]'")

RESULTS = {
    "text": make_attribution,
    "labels": all_labels,
    "methods": lambda: Attributions([make_attribution(), make_attribution(method="logat")]),
    "generation": make_generation,
}


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """A JupyterLab with two notebooks, of which it trusts one."""
    import nbformat
    from nbformat.sign import NotebookNotary

    home = tmp_path_factory.mktemp("lab")
    cells = [
        nbformat.v4.new_code_cell(
            name, outputs=[nbformat.v4.new_output("display_data", {"text/html": make()._repr_html_()})]
        )
        for name, make in RESULTS.items()
    ]
    notebook = nbformat.v4.new_notebook(cells=cells)
    for folder in ("work", "data"):
        (home / folder).mkdir()
    for name in ("trusted", "untrusted"):
        notebook.metadata["title"] = name  # or the one's signature would hold for the other
        nbformat.write(notebook, home / "work" / f"{name}.ipynb")
        if name == "trusted":
            NotebookNotary(data_dir=str(home / "data")).sign(nbformat.read(home / "work" / "trusted.ipynb", 4))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    places = {f"JUPYTER_{name}_DIR": str(home / name.lower()) for name in ("CONFIG", "DATA", "RUNTIME")}
    options = [
        "--no-browser",
        "--allow-root",
        f"--ServerApp.port={port}",
        "--ServerApp.ip=127.0.0.1",
        f"--ServerApp.root_dir={home / 'work'}",
        "--IdentityProvider.token=",
        "--LabApp.news_url=None",
        "--LabApp.check_for_updates_class=jupyterlab.handlers.announcements.NeverCheckForUpdate",
    ]
    command = [sys.executable, "-m", "jupyterlab", *options]
    with (home / "log").open("w") as log, subprocess.Popen(command, env=os.environ | places, stderr=log) as lab:
        try:
            address = f"http://127.0.0.1:{port}"
            for _ in range(300):
                assert lab.poll() is None, (home / "log").read_text()
                try:
                    urllib.request.urlopen(f"{address}/api", timeout=5).close()
                    break
                except OSError:
                    time.sleep(0.2)
            yield address
        finally:
            end(lab)


def test_results_are_drawn_in_a_notebook(watched, lab):
    with watched.page(quiet=False) as page:
        for trust in ("trusted", "untrusted"):
            page.goto(f"{lab}/lab/tree/{trust}.ipynb?reset")
            outputs = page.locator(".jp-RenderedHTMLCommon.jp-OutputArea-output")
            outputs.nth(len(RESULTS) - 1).wait_for(state="attached")
            first = outputs.first
            first.get_by_text("mediocre").first.wait_for()
            assert (first.locator("style").count() > 0) == (trust == "trusted")
            for place, name in enumerate(RESULTS):
                marks = outputs.nth(place).locator("span[title], td[title], span[style]")
                shades = set(marks.evaluate_all("all => all.map((e) => getComputedStyle(e).backgroundColor)"))
                assert len({s for s in shades if s.startswith(("rgba(220, 38, 38", "rgba(37, 99, 235"))}) >= 2, name
            words = first.locator("tbody th").evaluate_all("all => all.map((e) => [e.innerText, e.offsetWidth])")
            assert "mediocre" in [word for word, _ in words]
            assert all(width > 8 for word, width in words if word), words
            bars = first.locator("td span[style*='inline-block']")
            widths = bars.evaluate_all("all => all.map((e) => e.offsetWidth)")
            assert widths == sorted(widths, reverse=True)
            assert widths[0] > 50
