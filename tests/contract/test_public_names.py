"""The tests of this folder use what a user imports, and that is what the package names in `__all__`."""

import importlib

import pytest

import normxlogit

PUBLIC = {
    "normxlogit",
    "normxlogit.cli",
    "normxlogit.errors",
    "normxlogit.methods",
    "normxlogit.results",
}
"""Modules that the documentation imports from."""


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
