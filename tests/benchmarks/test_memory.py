"""The memory that an explanation takes over the forward pass."""

import pytest

from benchmarks import memory
from normxlogit import DataError
from paper.costs.memory import FORWARD, Used
from tests.benchmarks.sizes import BERT, written


@pytest.fixture
def measured(monkeypatch):
    """Memory as if every text took 10 MiB, NormXLogit's one in fifty more, beside a model of 1 GiB."""
    jobs = []

    def measure(job):
        jobs.append(job)
        share = 10.2 if job.method == "normxlogit" else 10
        return Used(2**30, int(share * job.batch * 2**20), job.batch * 0.5)

    monkeypatch.setattr(memory, "measure", measure)
    return jobs


def test_extra_memory_is_over_that_of_the_forward_pass(measured, capsys):
    row = memory.extra_memory(batch=16, rounds=3, bert=BERT)
    assert row.figure == pytest.approx(0.02, abs=1e-6)
    assert [job.method for job in measured] == [FORWARD, "normxlogit"] * 3
    assert "| 0.020 | 0.020 to 0.020 | pass |" in written(capsys, "memory", "--batch", 2, "--rounds", 1)


def test_no_memory_for_a_side_is_said(monkeypatch):
    monkeypatch.setattr(memory, "measure", lambda job: None if job.method == "normxlogit" else Used(1, 1, 1.0))
    with pytest.raises(DataError, match="not enough memory for 16 texts of 512 tokens"):
        memory.extra_memory(rounds=1)
