"""The paper's tables of costs and what they are measured with. No clock is asked for its opinion."""

import pytest
import torch
from transformers import BertModel

from paper.costs import memory
from paper.costs.memory import FORWARD, Job, Used

BERT = {"vocab_size": 8000, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
BERT |= {"intermediate_size": 16}


def test_a_batch_that_had_to_be_halved_does_not_fit(monkeypatch):
    forward = BertModel.forward

    def limited(self, input_ids, *args, **kwargs):
        if input_ids.numel() > 20:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(self, input_ids, *args, **kwargs)

    monkeypatch.setattr(BertModel, "forward", limited)
    for method in (FORWARD, "normxlogit"):
        assert memory._run(Job(method, 3, 6, BERT)) is not None
        assert memory._run(Job(method, 4, 6, BERT)) is None
    assert memory._run(Job("normxlogit", 1, 30, BERT)) is None


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


@pytest.mark.parametrize("fits", [0, 1, 2, 5, 8, 750])
def test_on_a_gpu_the_largest_batch_is_tried_out(monkeypatch, fits):
    jobs = []

    def measure(job):
        jobs.append(job)
        return Used(2**30, 2**20, job.batch * 0.25) if job.batch <= fits else None

    monkeypatch.setattr(memory, "measure", measure)
    monkeypatch.setattr(memory, "device_named", torch.device)
    found = memory.largest_batch("normxlogit", budget=2, length=9, bert=BERT, device="cuda")
    assert (found.batch, found.measured) == (fits, True)
    assert {(job.budget, job.length) for job in jobs} == {(2**31, 9)}
    assert found.seconds == 0.25 or not fits
