"""Runs the checks over every model of transformers' auto mappings, in worker processes that may hang or die.

`python -m tests.architectures.survey` from the repository's root writes docs/architectures.md, in some minutes.
"""

import argparse
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
from pathlib import Path
from typing import Any

SECONDS = 300
MEMORY = 12 << 30


def families(task: str) -> list[str]:
    """Model types of an auto mapping."""
    from transformers.models.auto import modeling_auto

    from tests.architectures.base import MAPPINGS

    return list(getattr(modeling_auto, MAPPINGS[task].name))


def work(check: Any = None) -> None:
    """A worker: reads (task, family) from stdin, a line each, and answers each with a line."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a model prints must not mix with the answers
    import warnings

    import torch
    import transformers

    if check is None:
        from tests.architectures.checks import check

    warnings.simplefilter("ignore")
    transformers.utils.logging.set_verbosity_error()
    torch.set_num_threads(1)
    for line in sys.stdin:
        task, family = json.loads(line)
        start = time.monotonic()
        try:
            answer: dict[str, Any] = check(task, family)
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
    """A worker process, started again when it dies or takes too long."""

    module = "tests.architectures.survey"

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None

    def __call__(self, task: str, family: str) -> dict[str, Any]:
        """Check one model."""
        if self.process is None or self.process.poll() is not None:
            self.process = subprocess.Popen(
                [sys.executable, "-m", self.module, "--work"],
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
            print(json.dumps([task, family]), file=process.stdin, flush=True)
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
    todo: list[tuple[str, str]], processes: int = 2, tell: Any = None, kind: type[Worker] = Worker
) -> dict[tuple[str, str], dict[str, Any]]:
    """Check many models.

    Args:
        todo: (task, family) pairs.
        processes: Workers at once.
        tell: Called with each pair and its result as it comes.
        kind: The workers, which say what is checked.
    """
    line: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
    for pair in todo:
        line.put(pair)
    results: dict[tuple[str, str], dict[str, Any]] = {}

    def serve() -> None:
        worker = kind()
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


def run_all(processes: int = 2) -> dict[tuple[str, str], dict[str, Any]]:
    """Check every model of every mapping."""
    from tests.architectures.base import MAPPINGS

    return survey([(task, family) for task in MAPPINGS for family in families(task)], processes)


def main() -> None:
    """Write the page, or be a worker."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        work()
        return
    from tests.architectures.frozen import FrozenWorker, verdict
    from tests.architectures.page import PAGE, render

    found = run_all(arguments.processes)
    frozen = survey(list(found), arguments.processes, kind=FrozenWorker)
    results = {pair: result | {"frozen": verdict(frozen[pair])} for pair, result in found.items()}
    PAGE.write_text(render(results), encoding="utf-8")


if __name__ == "__main__":
    main()
