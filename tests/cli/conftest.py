"""The command line in this process, with models that are loaded once for all tests."""

import io
from functools import cache, partial

import pytest

from normxlogit import Explainer
from tests import commands

loaded = cache(Explainer.from_pretrained)
"""The explainer of a model by its name, None for the one in the package."""


class Keyboard(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def run(capsys, monkeypatch):
    """Run the command line where nothing is piped in; returns exit code, output and errors."""
    monkeypatch.setattr(Explainer, "from_pretrained", lambda name=None, **_: loaded(name))
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.stdin", Keyboard())
    return partial(commands.run, capsys)
