"""The tests of this folder use what a user imports, and that is what the package names in `__all__`."""

import ast
import importlib
import re
from pathlib import Path

import pytest

import normxlogit

FOLDER = Path(__file__).parent
FILES = sorted(FOLDER.rglob("*.py"))

PUBLIC = {
    "normxlogit",
    "normxlogit.cli",
    "normxlogit.errors",
    "normxlogit.methods",
    "normxlogit.results",
    "normxlogit.evaluation.datasets",
    "normxlogit.evaluation.deletion",
    "normxlogit.evaluation.faithfulness",
    "normxlogit.evaluation.report",
}
"""Modules that the documentation imports from."""

EXCEPTIONS: dict[tuple[str, str], str] = {
    ("test_fingerprint.py", "normxlogit.evaluation.runs"): "commands keep finished results, and cannot add a hook",
}
"""(file, module) to the reason why a promise cannot be tested without it."""


def modules_used(source):
    """Return the modules of the package that a file imports or names in a string, and the names taken from each."""
    used = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "normxlogit":
            used += [(node.module, alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            used += [(alias.name, None) for alias in node.names if alias.name.split(".")[0] == "normxlogit"]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):  # a program for another process, a patch
            used += [(module, name) for module, name in re.findall(r"from (normxlogit[\w.]*) import (\w+)", node.value)]
            used += [(path, None) for path in re.findall(r"""^normxlogit(?:\.\w+)+$""", node.value)]
    return used


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_no_promise_is_tested_through_internals(file):
    if file == Path(__file__):
        return
    for module, name in modules_used(file.read_text("utf-8")):
        if (file.name, module) in EXCEPTIONS:
            continue
        assert module in PUBLIC, f"{file.name} uses {module}, which is internal: go through what users import"
        if name is not None:
            exported = getattr(importlib.import_module(module), "__all__", None)
            assert exported is not None, f"{module} has no __all__"
            assert name in exported, f"{file.name} takes {name} from {module}, which does not export it"


def test_the_check_sees_imports_programs_and_patches():
    source = """
import normxlogit.parts
from normxlogit.models import x
PROGRAM = "a\\nfrom normxlogit.corpus import y"
patch("normxlogit.models.tasks.call")
"""
    modules = [module for module, _ in modules_used(source)]
    assert set(modules) == {
        "normxlogit.parts",
        "normxlogit.models",
        "normxlogit.corpus",
        "normxlogit.models.tasks.call",
    }


@pytest.mark.parametrize("module", sorted(PUBLIC))
def test_every_public_name_is_there_and_described(module):
    imported = importlib.import_module(module)
    for name in imported.__all__:
        value = getattr(imported, name)
        if callable(value) and getattr(value, "__module__", "").startswith("normxlogit"):
            assert value.__doc__, f"{module}.{name} has no docstring"


def test_dir_and_unknown_names():
    assert set(normxlogit.__all__) <= set(dir(normxlogit))
    assert not hasattr(normxlogit, "nothing_of_that_name")
