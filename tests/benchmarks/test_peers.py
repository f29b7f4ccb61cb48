"""Other packages on the same sentence."""

import sys

import pytest

from benchmarks import peers


@pytest.fixture
def no_installation(monkeypatch):
    monkeypatch.setattr(peers, "_installed", lambda package, folder: (sys.executable, ""))


def test_a_peer_is_measured_on_the_same_sentence(no_installation, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # the other process finds this package from everywhere
    rows = list(peers.compare(["captum"], rounds=1))
    both = ["gradient x input", "integrated gradients, 50 steps"]
    assert [r.method for r in rows] == ["normxlogit", "frozen gradient", *both, *both]
    assert {r.work for r in rows} == {repr(peers.SENTENCE)}
    assert all(r.seconds > 0 and r.forwards > 0 and r.version for r in rows)
