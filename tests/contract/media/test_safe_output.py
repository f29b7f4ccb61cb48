"""Pictures and sounds with hostile names are drawn as safely as texts."""

import dataclasses

import pytest

from normxlogit.results.targets import Prediction
from tests.contract import test_safe_output as of_texts
from tests.contract.test_safe_output import HOSTILE
from tests.media.factories import make_audio, make_image


def hostile(make):
    return dataclasses.replace(make(), model=HOSTILE, notes=(HOSTILE,), predictions=(Prediction(HOSTILE, 0, 1.0, 0.5),))


kinds = pytest.mark.parametrize("make", [make_image, make_audio])


@kinds
def test_a_page_and_a_notebook_escape_everything(make, tmp_path):
    of_texts.test_a_page_and_a_notebook_escape_everything(lambda: hostile(make), make, tmp_path)


@kinds
def test_a_terminal_and_a_repr_get_no_control_sequences(make, monkeypatch):
    of_texts.test_a_terminal_and_a_repr_get_no_control_sequences(lambda: hostile(make), make, monkeypatch)
