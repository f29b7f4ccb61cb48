"""Other packages on the same sentence."""

import sys
from dataclasses import replace

import pytest

from benchmarks import peers
from benchmarks.peers import Compared
from tests.benchmarks.sizes import written


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


def test_a_package_that_does_not_run_is_a_row_that_says_why(no_installation, capsys, monkeypatch):
    ours = Compared("normxlogit", "1", "normxlogit", "", 0.5, 2.0)
    monkeypatch.setattr(peers, "_ours", lambda task, rounds: [replace(ours, work=task.name)])
    monkeypatch.setattr(peers, "_output", lambda command: ("", "No module named 'interpreto'"))
    out = written(capsys, "peers", "--packages", "interpreto", "--rounds", 1)
    assert "| normxlogit 1 | normxlogit | 'The movie is mediocre, maybe even bad.' | 500 ms | 2.00 |  |" in out
    assert "| interpreto | does not run on transformers 5" in out
    assert "No module named 'interpreto'" in out
