"""Run a notebook, and keep its output if asked: python scripts/run_notebook.py NOTEBOOK [--keep].

The tests do it in a process of its own, for Jupyter leaves sockets behind.
"""

import sys

import nbformat
from jupyter_client import KernelManager
from jupyter_client.kernelspec import KernelSpec
from nbclient import NotebookClient


class ThisPython(KernelManager):
    """A kernel of the Python that runs this file, whatever kernels are installed."""

    @property
    def kernel_spec(self):
        """How to start it."""
        command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return KernelSpec(argv=command, display_name="Python", language="python")


if __name__ == "__main__":
    notebook = nbformat.read(sys.argv[1], as_version=4)
    NotebookClient(notebook, km=ThisPython(), timeout=240).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # when each cell ran
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    if "--keep" in sys.argv:
        nbformat.write(notebook, sys.argv[1])
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    print(sum(cell.execution_count is not None for cell in code), "of", len(code), "cells")
