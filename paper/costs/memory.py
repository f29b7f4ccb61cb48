"""Peak memory of an explanation or a forward pass beside the model, each measured in a process of its own.

On a CPU it is the peak of the process's resident memory over what it held before the call, and the largest batch within
a budget is computed from two of those. On a CUDA device it is what torch's allocator held, and the largest batch is
tried out.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from normxlogit.compat import synchronise
from normxlogit.copies.memory import out_of_memory
from normxlogit.errors import DataError, InputError
from normxlogit.explainer import Explainer
from normxlogit.loading.load import AUTO, device_named

from .peak import Peak
from .random_models import random_bert, random_ids, reference_tokenizer

__all__ = ["FORWARD", "Job", "Largest", "Used", "largest_batch", "measure"]

ROOT = Path(__file__).parents[2]

FORWARD = "forward"
"""The bare forward pass among the methods."""

GIB = 2**30

SEVERAL, FEW, SLOW = 4, 2, 60.0
"""Texts at once whose peak is compared with a single one's; few where a single one takes so many seconds."""

GIVE_BACK = {"MALLOC_MMAP_THRESHOLD_": str(2**20)}
"""Lets glibc give every freed block of a megabyte back at once: else the peak depends on the holes in its heap."""


@dataclass(frozen=True)
class Job:
    """One measurement.

    Attributes:
        method: A registered method, or `FORWARD`.
        batch: Texts at once.
        length: Tokens of each.
        bert: Changes to the configuration of BERT-base.
        budget: On a CUDA device, bytes that may be used at most; 0 for all.
        device: Where the model runs.
    """

    method: str
    batch: int
    length: int
    bert: Mapping[str, Any] = field(default_factory=dict)
    budget: int = 0
    device: str = AUTO

    @property
    def on_cuda(self) -> bool:
        """Whether torch's allocator tells what is held."""
        return device_named(self.device).type == "cuda"


@dataclass(frozen=True)
class Used:
    """Memory and time of a job.

    Attributes:
        before: Bytes held before the call, the model and the libraries among them.
        added: Bytes by which the peak during the call passed that.
        seconds: How long the call took.
    """

    before: int
    added: int
    seconds: float


@dataclass(frozen=True)
class Largest:
    """The largest batch within a budget.

    Attributes:
        method: The method.
        batch: Texts at once.
        seconds: Seconds for each text, at the largest batch that was really run.
        measured: Whether that batch was run, or computed from smaller ones.
    """

    method: str
    batch: int
    seconds: float
    measured: bool


def measure(job: Job) -> Used | None:
    """Run a job in a new process.

    Returns:
        What it took; None if there was not enough memory.

    Raises:
        DataError: If the process fails for another reason.
    """
    command = [sys.executable, "-m", __name__, json.dumps(asdict(job) | {"threads": torch.get_num_threads()})]
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))  # `paper` is not installed
    variables = os.environ | GIVE_BACK | {"PYTHONPATH": path}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=variables)  # noqa: S603
    if done.returncode:
        if done.returncode < 0:  # killed by the system
            return None
        raise DataError(f"measuring {job.method} failed: {done.stderr.strip().splitlines()[-1]}")
    used = json.loads(done.stdout.splitlines()[-1])
    return None if used is None else Used(**used)


def largest_batch(
    method: str,
    *,
    budget: float = 48,
    length: int = 512,
    bert: Mapping[str, Any] | None = None,
    device: str = AUTO,
) -> Largest:
    """Find how many texts fit at once.

    Args:
        method: A registered method, or `FORWARD`.
        budget: In GiB; the paper's is 48.
        length: Tokens of each text.
        bert: Changes to the configuration of BERT-base.
        device: Where the model runs.

    Raises:
        DataError: If there is not enough memory for the smallest measurement.
    """
    limit = int(budget * GIB)
    single = Job(method, 1, length, bert or {}, device=device)
    if single.on_cuda:
        return _tried_out(replace(single, budget=limit))

    def of(batch: int) -> Used:
        result = measure(replace(single, batch=batch))
        if result is None:
            raise DataError(f"there is not enough memory to measure {method}")
        return result

    one = of(1)
    more = FEW if one.seconds > SLOW else SEVERAL
    several = of(more)
    each = max(1.0, (several.added - one.added) / (more - 1))
    fixed = one.before + max(0.0, one.added - each)
    return Largest(method, max(0, int((limit - fixed) / each)), several.seconds / more, measured=False)


def _tried_out(job: Job) -> Largest:
    """Double the batch until it does not fit, then halve the gap."""

    def used(batch: int) -> Used | None:
        return measure(replace(job, batch=batch))

    fits, fails, seconds = 0, 0, float("nan")
    batch = 1
    while batch != fits:
        result = used(batch)
        if result is None:
            fails = batch
        else:
            fits, seconds = batch, result.seconds / batch
        batch = 2 * batch if not fails else (fits + fails) // 2
    return Largest(job.method, fits, seconds, measured=True)


def _run(job: Job) -> Used | None:
    model = random_bert(job.bert, device=job.device)
    explainer = Explainer(
        model, reference_tokenizer(), name="BERT-base, random weights", batch_tokens=job.batch * job.length
    )

    def work(inputs: Mapping[str, Any]) -> None:
        if job.method == FORWARD:
            with torch.inference_mode():
                model(**inputs)
        else:
            explainer(inputs, method=job.method)

    vocabulary = model.config.vocab_size
    # the proof of the head, and what libraries set up once
    work(random_ids(min(8, job.length), vocabulary, device=job.device))
    inputs = random_ids(job.length, vocabulary, job.batch, job.device)
    start = time.perf_counter()
    try:
        with Peak(job.on_cuda) as peak:
            work(inputs)
            synchronise()
    except (RuntimeError, MemoryError, InputError) as error:
        if isinstance(error, InputError) or out_of_memory(error):
            return None
        raise
    if explainer.task_model.batch_tokens < inputs["input_ids"].numel():  # it went on with smaller batches
        return None
    return Used(peak.before, max(1, peak.added), time.perf_counter() - start)


def main(arguments: Sequence[str]) -> None:
    """Print one line of JSON."""
    state = json.loads(arguments[0])
    torch.set_num_threads(state.pop("threads"))
    job = Job(**state)
    if job.budget and job.on_cuda:
        torch.cuda.set_per_process_memory_fraction(min(1.0, job.budget / torch.cuda.mem_get_info()[1]))
    used = _run(job)
    sys.stdout.write(json.dumps(None if used is None else asdict(used)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
