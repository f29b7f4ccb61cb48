"""Processors of older versions check the classes of their parts, which are made in memory here."""

import pytest
from transformers import ProcessorMixin

from tests.cli.conftest import run

__all__ = ["run"]


@pytest.fixture(autouse=True)
def parts_of_any_class(monkeypatch):
    """Let a processor take any tokenizer, as it does in newer versions."""
    monkeypatch.setattr(ProcessorMixin, "check_argument_for_proper_class", lambda self, name, argument: type(argument))
