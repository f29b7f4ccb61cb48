"""A lack of memory is told from every other error."""

import pytest
import torch

from normxlogit.surgery.memory import out_of_memory, refuse_to_hide

LACKS = [
    torch.OutOfMemoryError("CUDA out of memory"),
    MemoryError(),
    RuntimeError("[enforce fail at alloc_cpu.cpp:117] . DefaultCPUAllocator: not enough memory"),
    RuntimeError("can't allocate memory: you tried to allocate 9 bytes"),
]


@pytest.mark.parametrize("error", LACKS, ids=str)
def test_a_lack(error):
    assert out_of_memory(error)
    with pytest.raises(type(error)):
        refuse_to_hide(error)


@pytest.mark.parametrize("error", [RuntimeError("mat1 and mat2"), ValueError("memory"), KeyError()], ids=repr)
def test_no_lack(error):
    assert not out_of_memory(error)
    refuse_to_hide(error)
