"""Which tests run which line, and whether they notice a change: what mutation.py asks.

Each question is answered in a fork, so that torch and transformers are imported once.
"""

import ast
import contextlib
import importlib
import json
import os
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

PACKAGE = "src/normxlogit"

CONVENTIONS = "tests/test_conventions.py"
"""What looks at every definition: within seconds."""

PROMISES = sorted(map(str, Path("tests/contract").glob("test_*.py")))
"""The promises of the core, without those of any wing."""

ROOMS = {
    room: [CONVENTIONS, *PROMISES, f"tests/{room}"]
    for room in (
        "copies",
        "frozen",
        "inputs",
        "leave_out",
        "loading",
        "methods",
        "model",
        "parts",
        "pipeline",
        "render",
        "results",
        "tasks",
        "text",
    )
}
"""The rooms of the core, and the core's own tests, which must notice a change in them without any wing."""

TIMEOUT = 1800
"""Seconds after which a change counts as noticed: it made something endless."""

NOT_SHARED = ("__main__", "ray", "duckdb", "gradio", "coverage", "pyarrow")
"""Modules that each fork imports itself, as they start threads; those of the checkout, which change, are others."""


def prepare() -> None:
    """Import what all tests need, so that their forks begin with it."""
    torch.set_num_threads(1)  # OpenMP does not survive a fork
    sys.dont_write_bytecode = True  # a change within a second and of the same length would not be seen
    for name in ("transformers.models.bert.modeling_bert", "transformers.models.llama.modeling_llama", "captum.attr"):
        importlib.import_module(name)


def noticed(tests: str, only: list[str] | None = None) -> bool:
    """Return whether some tests fail, or go on without end, in a fork that has torch and transformers already.

    Args:
        tests: Files, folders or names.
        only: The names of those among them that are run, in this order.
    """
    status = forked(lambda: run(tests.split(), [] if only is None else [Chosen(only)]))
    if status in (4, 5) and only is None:  # tests that were seen before are not found where a change breaks an import
        sys.exit(f"pytest found nothing to run at {tests}")
    return status != 0  # one failed, or the package cannot even be imported


def run(tests: list[str], plugins: list[object]) -> int:
    """Run tests in this process until one fails, and return pytest's exit code."""
    early = "ignore::pytest.PytestAssertRewriteWarning"  # what is imported before pytest starts
    return int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-W", early, *tests], plugins=plugins))


def forked(work: Callable[[], int]) -> int | None:
    """Return the exit code of some work in a silent fork, None where it takes too long."""
    child = os.fork()
    if not child:  # this is the child's process, which ends at `os._exit`
        silent = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(silent, stream)
        sys.path[:0] = [str(Path("src").resolve()), str(Path.cwd())]
        code = 1
        try:
            code = work()
        finally:
            os._exit(code)
    end = time.monotonic() + TIMEOUT
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)  # (0, 0) while it runs
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None
        time.sleep(0.02)


class Chosen:
    """A pytest plugin that runs some of the tests that were found, in an order of its own."""

    def __init__(self, names: list[str]) -> None:
        self.places = {name: place for place, name in enumerate(names)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out the others; all of them stay where a change has moved the names."""
        chosen = [item for item in items if item.nodeid in self.places]
        items[:] = sorted(chosen, key=lambda item: self.places[item.nodeid]) or items


class Record(NamedTuple):
    """What was seen of the tests of some rooms without a change.

    Attributes:
        seconds: How long each test takes, of those that pass.
        lines: The tests that run each line of each file.
    """

    seconds: dict[str, float]
    lines: dict[str, dict[int, list[str]]]


class Watcher:
    """A pytest plugin that writes down how long each test takes and which lines of some rooms it runs."""

    def __init__(self, rooms: list[str]) -> None:
        from coverage import Coverage

        source = [str(Path(PACKAGE, room).resolve()) for room in rooms]
        self.coverage = Coverage(data_file=None, source=source, config_file=False)
        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()

    def pytest_sessionstart(self) -> None:
        """Begin to trace."""
        self.coverage.start()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Name the test that runs."""
        self.coverage.switch_context(nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up its phases."""
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration
        if report.failed:
            self.failed.add(report.nodeid)

    def record(self) -> dict[str, Any]:
        """Return what was seen, as plain values."""
        self.coverage.stop()
        data = self.coverage.get_data()
        lines = {
            str(Path(path).relative_to(Path.cwd())): data.contexts_by_lineno(path) for path in data.measured_files()
        }
        return {"seconds": self.seconds, "lines": lines, "failed": sorted(self.failed), "modules": sorted(sys.modules)}


def watched(rooms: list[str], kept: Path | None = None) -> Record:
    """Run the tests of some rooms once without a change, and import what they need, so that forks begin with it.

    Args:
        rooms: The rooms whose lines are watched.
        kept: A file that an earlier run of the same code wrote, and this one writes where it is missing.
    """
    path = kept or Path(tempfile.mkdtemp(dir=".."), "record.json")

    def work() -> int:
        watcher = Watcher(rooms)
        code = run(["--maxfail=1000", *dict.fromkeys(tests for room in rooms for tests in ROOMS[room])], [watcher])
        path.write_text(json.dumps(watcher.record()), encoding="utf-8")
        return code

    began = time.monotonic()
    code = 0 if path.exists() else forked(work)
    if not path.exists():
        sys.exit(f"the tests could not be watched: exit code {code}")
    record = json.loads(path.read_text(encoding="utf-8"))
    if len(record["failed"]) > len(record["seconds"]) / 20:
        sys.exit(f"{len(record['failed'])} tests fail without a change: {', '.join(record['failed'][:5])} ...")
    for name in record["failed"]:
        print(f"left out, since it fails without a change while it is traced: {name}")
    of_checkout = {path.stem for folder in (".", "src") for path in Path(folder).iterdir()}
    for name in record["modules"]:
        if name.partition(".")[0] not in {*NOT_SHARED, *of_checkout, *sys.modules}:
            with contextlib.suppress(Exception), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                importlib.import_module(name)
    if "normxlogit" in sys.modules:
        sys.exit("a module that tests need imports the package, so that no fork would see a change")
    print(f"{len(record['seconds'])} tests in {time.monotonic() - began:.0f} s", flush=True)
    seconds = {name: taken for name, taken in record["seconds"].items() if name not in record["failed"]}
    lines = {}
    for file, tests_of_lines in record["lines"].items():
        lines[file] = {int(line): tests for line, tests in tests_of_lines.items()}  # JSON has strings for keys
    return Record(seconds, lines)


def notices(record: Record, room: str, path: Path, place: tuple[int, int], limit: float) -> list[str]:
    """Return the tests that run a place in the code, as many as go into some seconds, the cheapest file first.

    What is run by importing a module, such as a constant or a default, may matter to all tests of the room; those that
    look at every definition of the package come first, then those that run something of the module.
    """
    tests_of_line = record.lines.get(str(path), {})
    lines = lines_of(path, place)
    tests_of_module = {name for names in tests_of_line.values() for name in names}
    names = {name for line in lines for name in tests_of_line.get(line, ())} if lines else set(record.seconds)
    names = {name for name in names & set(record.seconds) if name.startswith(tuple(ROOMS[room]))}
    seconds_of_file: dict[str, float] = {}
    for name in names:
        file = name.partition("::")[0]
        seconds_of_file[file] = seconds_of_file.get(file, 0.0) + record.seconds[name]

    def order(name: str) -> tuple[bool, bool, float, str, float]:
        """Sort the tests of the file and of conventions first, then those of the module, then by time."""
        file = name.partition("::")[0]
        is_early = Path(file).name in (f"test_{path.name}", Path(CONVENTIONS).name)
        return not is_early, name not in tests_of_module, seconds_of_file[file], file, record.seconds[name]

    chosen, seconds = [], 0.0
    for name in sorted(names, key=order):
        if seconds < limit:
            chosen.append(name)
            seconds += record.seconds[name]
    return chosen


def lines_of(path: Path, place: tuple[int, int]) -> range | None:
    """Return the lines of the statement that holds a place, without its block; None where importing runs it.

    Args:
        path: The file.
        place: Line, from 1, and column, from 0.
    """
    holders = [
        node
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.stmt)
        and (node.lineno, node.col_offset) <= place < (node.end_lineno or 0, node.end_col_offset or 0)
    ]
    holders.sort(key=lambda node: (node.lineno, node.col_offset, -(node.end_lineno or 0)))  # the outermost first
    functions = [n for n in holders if isinstance(n, ast.FunctionDef) and n.body[0].lineno <= place[0]]
    if not functions:
        return None
    innermost = holders[-1]
    block = getattr(innermost, "body", None)
    if block:  # of an `if` or a `for` its head
        return range(innermost.lineno, max(innermost.lineno + 1, block[0].lineno))
    return range(innermost.lineno, (innermost.end_lineno or 0) + 1)
