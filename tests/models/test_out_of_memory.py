"""Many encodings in batches: half the budget when memory runs out, and no more than that."""

import pytest
import torch

from normxlogit import InputError
from normxlogit.models.map_batches import map_batches, run_batches
from normxlogit.models.task_model import TaskModel
from normxlogit.surgery.memory import out_of_memory
from tests import tiny


def model_and_encodings(count=16, budget=64):
    model = TaskModel(tiny.model("bert"), tiny.tokenizer_for("bert"), batch_tokens=budget)
    return model, model.encoder(["the cat"] * count)  # four tokens each


def sizes_tried(model, encodings, most):
    """Sizes of the batches that were tried and of those that fitted, where `most` tokens fit into memory."""
    tried = []

    def work(places):
        tried.append(len(places))
        if 4 * len(places) > most:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return places

    done = [len(result) for _, result in run_batches(model, encodings, work)]
    return tried, done


def test_the_budget_is_halved_until_a_batch_fits():
    model, encodings = model_and_encodings()
    tried, done = sizes_tried(model, encodings, 20)
    assert tried == [16, 8, 4, 4, 4, 4]
    assert done == [4, 4, 4, 4]
    assert model.batch_tokens == 16, "and stays so for the next call"


def test_what_counts_is_the_batch_that_failed_not_a_budget_far_above_it():
    model, encodings = model_and_encodings(count=4, budget=10_000)
    assert sizes_tried(model, encodings, 8) == ([4, 2, 2], [2, 2])
    assert model.batch_tokens == 8


def test_a_single_text_that_does_not_fit_is_an_error():
    model, encodings = model_and_encodings()
    with pytest.raises(InputError, match="not enough memory to explain a single text of 4 tokens"):
        sizes_tried(model, encodings, 3)


def test_other_errors_are_not_taken_for_memory():
    model, encodings = model_and_encodings()

    def work(_):
        raise RuntimeError("sizes do not match")

    with pytest.raises(RuntimeError, match="sizes do not match"):
        map_batches(model, encodings, work)
    assert not out_of_memory(RuntimeError("sizes do not match"))
    assert out_of_memory(RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory"))


def test_a_lack_of_memory_in_the_proof_is_no_mismatch(monkeypatch):
    task = TaskModel(tiny.model("bert"), tiny.tokenizer_for("bert"))
    batch = task.batch(task.encoder(["the cat"]), [0])

    def full(*_, **__):
        raise RuntimeError("[enforce fail at alloc_cpu.cpp:117] . DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr("normxlogit.surgery.headpiece.Head.whole", full)
    with pytest.raises(RuntimeError, match="DefaultCPUAllocator"):
        task.run(batch)
