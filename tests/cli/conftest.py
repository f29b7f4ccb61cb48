"""The command line in this process, with the real library watched behind it."""

import io
from dataclasses import dataclass, field
from functools import partial

import pytest

from normxlogit import Explainer, NormXLogitError
from tests import commands

LOADED: dict[str | None, Explainer] = {}
"""Models by the name that the command gave, None for the one in the package; loaded once for all tests."""


@dataclass
class Asked:
    """What the command asked of the library, which answered."""

    loaded: list[str | None] = field(default_factory=list)
    calls: list[tuple[list, dict]] = field(default_factory=list)
    error: NormXLogitError | None = None


@pytest.fixture
def asked(monkeypatch):
    """Watch the real explainer."""
    found, load, call = Asked(), Explainer.from_pretrained, Explainer.__call__

    def loading(name=None, **options):
        found.loaded.append(name)
        assert options == {"device": "auto", "dtype": None}
        return LOADED.get(name) or LOADED.setdefault(name, load(name))

    def calling(self, inputs, **options):
        if found.error is not None:
            raise found.error
        found.calls.append((inputs, options))
        return call(self, inputs, **options)

    monkeypatch.setattr(Explainer, "from_pretrained", loading)
    monkeypatch.setattr(Explainer, "__call__", calling)
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.stdin", Keyboard())
    return found


class Keyboard(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def run(asked, capsys):
    """Run the command line in this process; returns exit code, output and errors."""
    return partial(commands.run, capsys)
