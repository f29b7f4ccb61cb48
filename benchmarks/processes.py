"""Measurements that need a process of their own, such as those of peak memory."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import torch

from normxlogit.errors import DataError
from paper.costs.memory import GIVE_BACK

__all__ = ["measured_apart", "run_job"]


def measured_apart(module: str, job: Any, what: str) -> Any:
    """Run a module with a job as JSON, and return what its last printed line holds as JSON.

    Args:
        module: The module, which is run with the job as its one argument.
        job: What it measures.
        what: What that is called, for the error.

    Raises:
        DataError: If the process fails, for want of memory for example.
    """
    command = [sys.executable, "-m", module, json.dumps(job)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | GIVE_BACK)  # noqa: S603
    if ended.returncode:
        error_lines = ended.stderr.strip().splitlines() or [f"exit {ended.returncode}"]
        raise DataError(f"measuring {what} failed: {error_lines[-1]}")
    return json.loads(ended.stdout.splitlines()[-1])


def run_job(measure: Callable[..., Any], arguments: Sequence[str]) -> None:
    """Do what `measured_apart` asks of a module: measure its job, and print the record of the result as JSON.

    Args:
        measure: Takes the fields of the job but "threads", which torch is set to, and returns a data class.
        arguments: Of the process: the job as JSON.
    """
    job = json.loads(arguments[0])
    torch.set_num_threads(job.pop("threads"))
    sys.stdout.write(json.dumps(asdict(measure(**job))) + "\n")
