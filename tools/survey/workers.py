"""Processes that make the calls on one model class after another, with a limit of time and of memory."""

import json
import os
import queue
import resource
import selectors
import subprocess
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers.models.auto import modeling_auto

from tools.survey.base import MAPPINGS, WITHOUT
from tools.survey.calls import call_all

ROOT = Path(__file__).parents[2]
SECONDS = 300
MEMORY = 12 << 30

Pair = tuple[str, str]
"""A mapping and a model type."""


def families(task: str) -> list[str]:
    """Return the model types of an auto mapping, without those whose class is surveyed in another."""
    names = {mapping: getattr(modeling_auto, MAPPINGS[mapping].name) for mapping in (task, *WITHOUT.get(task, ()))}
    elsewhere = {cls for mapping in WITHOUT.get(task, ()) for cls in names[mapping].values()}
    return [family for family, cls in names[task].items() if cls not in elsewhere]


def every_pair() -> list[Pair]:
    """Return the mapping and the model type of every class."""
    return [(task, family) for task in MAPPINGS for family in families(task)]


def work() -> None:
    """Read the arguments of `call_all` from stdin, a line each, and answer each with its outcomes in a line."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a model prints must not mix with the answers
    warnings.simplefilter("ignore")
    transformers.utils.logging.set_verbosity_error()
    torch.set_num_threads(1)
    for line in sys.stdin:
        start = time.monotonic()
        try:
            answer = call_all(*json.loads(line))
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            text = (str(error).strip().splitlines() or [""])[0]
            answer = {
                "error": f"{type(error).__name__}: {text}"[:500],
                "where": f"{'/'.join(Path(where.filename).parts[-2:])}:{where.lineno}",
            }
        answer["seconds"] = round(time.monotonic() - start, 2)
        print(json.dumps(answer), file=out, flush=True)


class Worker:
    """A worker process, started again when it dies or takes too long.

    Args:
        only: The calls to make; all where it is empty.
    """

    def __init__(self, only: Sequence[str] = ()) -> None:
        self.only = list(only)
        self.process: subprocess.Popen[str] | None = None

    def __call__(self, task: str, family: str) -> dict[str, Any]:
        """Check one model."""
        if self.process is None or self.process.poll() is not None:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tools.survey.workers"],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env=os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"},
            )
        process = self.process
        assert process.stdin
        assert process.stdout
        try:
            print(json.dumps([task, family, *([self.only] if self.only else [])]), file=process.stdin, flush=True)
            with selectors.DefaultSelector() as selector:
                selector.register(process.stdout, selectors.EVENT_READ)
                if not selector.select(SECONDS):
                    self.close()
                    return {"error": f"no answer within {SECONDS} seconds"}
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            self.close()
            return {"error": "the process died"}
        return json.loads(line)

    def close(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.communicate()  # also closes the pipes
            self.process = None


def survey(
    todo: list[Pair],
    processes: int = 2,
    tell: Callable[[Pair, dict[str, Any]], None] | None = None,
    only: Sequence[str] = (),
) -> dict[Pair, dict[str, Any]]:
    """Check many models.

    Args:
        todo: (mapping, family) pairs.
        processes: Workers at once.
        tell: Called with each pair and its outcome as it comes.
        only: As for `Worker`.
    """
    line: queue.SimpleQueue[Pair] = queue.SimpleQueue()
    for pair in todo:
        line.put(pair)
    results: dict[Pair, dict[str, Any]] = {}

    def serve() -> None:
        worker = Worker(only)
        try:
            while True:
                pair = line.get_nowait()
                results[pair] = worker(*pair)
                if tell:
                    tell(pair, results[pair])
        except queue.Empty:
            pass
        finally:
            worker.close()

    threads = [threading.Thread(target=serve) for _ in range(min(processes, len(todo)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


if __name__ == "__main__":
    work()
