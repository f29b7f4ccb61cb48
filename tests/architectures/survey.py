"""Makes the user's calls on every model class of transformers' auto mappings, and writes docs/architectures.md.

`python -m tests.architectures.survey` from the repository's root goes on where it was stopped: outcomes are kept in
build/architectures.jsonl. `--mapping` and `--family` make the calls again on a part and print what is not "yes";
`--again error` makes them again where a call ended in an error. Remove the file to begin anew, as after a change of the
library. The page says of a call that was not made that it was not.
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
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

SECONDS = 300
MEMORY = 12 << 30
KEPT = Path(__file__).parents[2] / "build" / "architectures.jsonl"

Pair = tuple[str, str]


def families(task: str) -> list[str]:
    """Model types of an auto mapping."""
    from transformers.models.auto import modeling_auto

    from tests.architectures.base import MAPPINGS

    return list(getattr(modeling_auto, MAPPINGS[task].name))


def every_pair() -> list[Pair]:
    """Return the mapping and the model type of every class."""
    from tests.architectures.base import MAPPINGS

    return [(task, family) for task in MAPPINGS for family in families(task)]


def work(checks: str) -> None:
    """Read (mapping, family) from stdin, a line each, and answer each with a line.

    Args:
        checks: "calls" for the user's calls, "head" for the checks of the head alone.
    """
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a model prints must not mix with the answers
    import warnings

    import torch
    import transformers

    from tests.architectures.calls import call_all
    from tests.architectures.checks import check

    run: Callable[[str, str], dict[str, Any]] = {"calls": call_all, "head": check}[checks]
    warnings.simplefilter("ignore")
    transformers.utils.logging.set_verbosity_error()
    torch.set_num_threads(1)
    for line in sys.stdin:
        start = time.monotonic()
        try:
            answer = run(*json.loads(line))
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
        checks: As in `work`.
        only: The calls to make; all where it is empty.
    """

    def __init__(self, checks: str, only: Sequence[str] = ()) -> None:
        self.checks, self.only = checks, list(only)
        self.process: subprocess.Popen[str] | None = None

    def __call__(self, task: str, family: str) -> dict[str, Any]:
        """Check one model."""
        if self.process is None or self.process.poll() is not None:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.architectures.survey", "--work", self.checks],
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
    checks: str = "calls",
    only: Sequence[str] = (),
) -> dict[Pair, dict[str, Any]]:
    """Check many models.

    Args:
        todo: (mapping, family) pairs.
        processes: Workers at once.
        tell: Called with each pair and its outcome as it comes.
        checks: As in `work`.
        only: As for `Worker`.
    """
    line: queue.SimpleQueue[Pair] = queue.SimpleQueue()
    for pair in todo:
        line.put(pair)
    results: dict[Pair, dict[str, Any]] = {}

    def serve() -> None:
        worker = Worker(checks, only)
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


def read_kept() -> dict[Pair, dict[str, Any]]:
    """Return the outcomes of earlier runs, the last of each class."""
    if not KEPT.exists():
        return {}
    found: dict[Pair, dict[str, Any]] = {}
    for line in KEPT.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        pair = row.pop("task"), row.pop("family")
        if row.pop("only", False):  # some calls of a class, made again
            row = found.get(pair, {}) | row | {"calls": found.get(pair, {}).get("calls", {}) | row.get("calls", {})}
        found[pair] = row
    return found


def _keep(pair: Pair, result: dict[str, Any]) -> None:
    """Append the outcomes of a class, and print those that are not "yes"."""
    KEPT.parent.mkdir(exist_ok=True)
    with KEPT.open("a", encoding="utf-8") as file:
        print(json.dumps({"task": pair[0], "family": pair[1]} | result), file=file)
    calls = result.get("calls", {}) | {"head": result.get("head", result.get("error", "yes"))}
    print(*pair, result.get("seconds", ""), flush=True)
    for name, outcome in calls.items():
        if outcome.startswith(("error", "fails", "no answer", "the process")):
            print(f"    {name}: {outcome}", flush=True)


def main() -> None:
    """Make the calls that are missing or asked for, and write the page."""
    from tests.architectures.base import MAPPINGS

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--mapping", action="append", choices=MAPPINGS, help="only these; may be given several times")
    parser.add_argument("--family", action="append", help="only these model types; may be given several times")
    parser.add_argument("--call", action="append", help="make only these calls again, such as 'frozen-gradient'")
    parser.add_argument("--again", help="make the calls again where an outcome begins with this, such as 'error'")
    parser.add_argument("--work", choices=("calls", "head"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        work(arguments.work)
        return
    from tests.architectures.page import write

    pairs, kept = every_pair(), read_kept()
    chosen = [
        (task, family)
        for task, family in pairs
        if task in (arguments.mapping or MAPPINGS) and (not arguments.family or family in arguments.family)
    ]

    def missing(pair: Pair) -> bool:
        if pair not in kept or arguments.family or arguments.call:
            return True
        row = kept[pair]
        outcomes = [*row.get("calls", {}).values(), row.get("head", ""), "error" if "error" in row else ""]
        return arguments.again is not None and any(outcome.startswith(arguments.again) for outcome in outcomes)

    def keep(pair: Pair, result: dict[str, Any]) -> None:
        _keep(pair, result | ({"only": True} if arguments.call else {}))

    todo = [pair for pair in chosen if missing(pair)]
    survey(todo, arguments.processes, keep, only=arguments.call or ())
    kept = read_kept()
    write({pair: kept.get(pair, {}) for pair in pairs})


if __name__ == "__main__":
    main()
