"""Change the numeric core in small ways, one at a time, and see whether the tests of its room notice.

Usage: python scripts/mutation.py                                # a sample of 30 changes in each room
       python scripts/mutation.py surgery --sample 60 --seed 1
       python scripts/mutation.py methods --sample 0             # all of them: a day
       python scripts/mutation.py models --only positions.py
       python scripts/mutation.py --listed                       # the changes of listed_mutations.json: ten minutes

The changes are Cosmic Ray's (pip install cosmic-ray). They are made in a copy of the checkout, never in it. A sample is
drawn by place: first a place in the code, then one of the changes that could be made there, so that a comparison, which
can be changed in six ways, counts no more than a number. Annotations are left alone.
"""

import argparse
import ast
import difflib
import importlib
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import torch

if TYPE_CHECKING:
    from cosmic_ray.work_item import MutationSpec

ROOT = Path(__file__).parent.parent
PACKAGE = "src/normxlogit"

ROOMS = {
    "surgery": ["tests/surgery", "tests/test_promises.py"],
    "models": ["tests/models", "tests/test_promises.py"],
    "methods": ["tests/methods", "tests/test_promises.py"],
    "evaluation": ["tests/evaluation"],
}
"""The rooms of the numeric core and the tests that must notice a change in them."""

TIMEOUT = 1800
"""Seconds after which a change counts as noticed: it made something endless."""

Mutations = dict[tuple[str, int, int], list["MutationSpec"]]


class Listed(NamedTuple):
    """A change by hand that a first round of mutation testing found alive, and who must notice it.

    Attributes:
        breaks: What is wrong with it.
        path: The file, under src/normxlogit.
        old: What stands there, once.
        new: What is written instead.
        tests: The tests that must fail.
    """

    breaks: str
    path: str
    old: str
    new: str
    tests: str


def main() -> int:
    """Try the rooms asked for, and print what survived and the share that was killed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("rooms", nargs="*", choices=[*ROOMS, []], help="by default all")
    parser.add_argument("--sample", type=int, default=30, help="changes in each room; 0 for all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="files of this name only")
    parser.add_argument("--listed", action="store_true", help="the listed changes, and no sample")
    asked = parser.parse_args()
    listed = json.loads(Path(__file__).with_name("listed_mutations.json").read_text(encoding="utf-8"))
    wanted = [one for one in (Listed(**state) for state in listed) if asked.only in (None, Path(one.path).name)]
    lines = ["| room | changes | killed | share | 95% interval |", "|---|---|---|---|---|"]
    with tempfile.TemporaryDirectory(prefix="normxlogit-mutation-") as folder:
        os.chdir(copied(Path(folder) / "checkout"))
        os.environ |= {"PYTHONPATH": f"{Path('src').resolve()}{os.pathsep}{Path.cwd()}"}  # of what tests start
        prepare()
        if asked.listed:
            return replayed(wanted)
        for room in asked.rooms or ROOMS:
            found = mutations(room, asked.only)
            drawn = sampled(found, asked.sample, asked.seed)
            print(f"{room}: {len(drawn)} of {sum(map(len, found.values()))} changes at {len(found)} places", flush=True)
            if noticed(" ".join(ROOMS[room])):
                sys.exit(f"the tests of {room} fail without a change, so they would seem to notice every one")
            lines.append(row(room, sum(tried(room, one) for one in drawn), len(drawn)))
    print("\n".join(["", *lines]))
    return 0


def replayed(wanted: list[Listed]) -> int:
    """Make the listed changes one by one, and print which of them the tests notice; return 1 unless they notice all."""
    for tests in dict.fromkeys(one.tests for one in wanted):
        if noticed(tests):
            sys.exit(f"{tests} fails without a change, so it would seem to notice every one")
    counts = {"killed": 0, "SURVIVED": 0, "NOT THERE": 0}
    for one in wanted:
        path = Path(PACKAGE, one.path)
        before = path.read_text(encoding="utf-8")
        if before.count(one.old) != 1:  # the code has moved on: the list must follow
            said = "NOT THERE"
        else:
            path.write_text(before.replace(one.old, one.new), encoding="utf-8")
            said = "killed" if noticed(one.tests) else "SURVIVED"
            path.write_text(before, encoding="utf-8")
        counts[said] += 1
        print(f"{said:9} {one.path}: {one.breaks}", flush=True)
    print(f"\n{len(wanted)} listed changes: {', '.join(f'{count} {said}' for said, count in counts.items())}")
    return int(counts["killed"] < len(wanted))


def prepare() -> None:
    """Import what all tests need, so that their forks begin with it."""
    torch.set_num_threads(1)  # OpenMP does not survive a fork
    sys.dont_write_bytecode = True  # a change within a second and of the same length would not be seen
    for name in ("transformers.models.bert.modeling_bert", "transformers.models.llama.modeling_llama", "captum.attr"):
        importlib.import_module(name)


def noticed(tests: str) -> bool:
    """Return whether some tests fail, or go on without end, in a fork that has torch and transformers already."""
    child = os.fork()
    if not child:
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        sys.path[:0] = [str(Path("src").resolve()), str(Path.cwd())]
        early = "ignore::pytest.PytestAssertRewriteWarning"  # what is imported before pytest starts
        os._exit(int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-W", early, *tests.split()])))
    ends = time.monotonic() + TIMEOUT
    while not (found := os.waitpid(child, os.WNOHANG))[0]:
        if time.monotonic() > ends:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return True
        time.sleep(0.1)
    code = os.waitstatus_to_exitcode(found[1])
    if code in (4, 5):
        sys.exit(f"pytest found nothing to run at {tests}")
    return code != 0  # one failed, or the package cannot even be imported


def copied(folder: Path) -> Path:
    """Copy what git knows of the checkout, as it is now."""
    names = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],  # noqa: S607
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, names.stdout.splitlines()):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def mutations(room: str, only: str | None) -> Mutations:
    """Return the changes that can be made in a room, by place."""
    import cosmic_ray.commands
    from cosmic_ray.work_db import WorkDB, use_db

    paths = [path for path in sorted(Path(PACKAGE, room).rglob("*.py")) if only in (None, path.name)]
    with tempfile.TemporaryDirectory() as folder, use_db(f"{folder}/work.sqlite", WorkDB.Mode.create) as work:
        cosmic_ray.commands.init(paths, work, {})
        items = [item.mutations[0] for item in work.work_items]
    left_alone = {path: annotations(path) for path in paths}
    found: Mutations = {}
    for one in sorted(items, key=lambda m: (str(m.module_path), m.start_pos, m.operator_name, m.occurrence)):
        if not any(begin <= one.start_pos < end for begin, end in left_alone[one.module_path]):
            found.setdefault((str(one.module_path), *one.start_pos), []).append(one)
    return found


def annotations(path: Path) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return where a file's annotations begin and end: (line, column) each."""
    nodes: list[Any] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
            nodes.append(node.annotation)
        elif isinstance(node, ast.FunctionDef) and node.returns is not None:
            nodes.append(node.returns)
    return [((n.lineno, n.col_offset), (n.end_lineno, n.end_col_offset)) for n in nodes]


def sampled(found: Mutations, count: int, seed: int) -> "list[MutationSpec]":
    """Draw a place, then one of the changes there, until there are as many as asked for."""
    if not count:
        return [one for several in found.values() for one in several]
    draw = random.Random(seed)  # noqa: S311  # a sample, not a secret
    return [draw.choice(found[place]) for place in draw.sample(sorted(found), min(count, len(found)))]


def tried(room: str, one: "MutationSpec") -> bool:
    """Make a change, run the tests of its file and then the room's, take it back, and print what became of it."""
    from cosmic_ray.mutating import use_mutation
    from cosmic_ray.plugins import get_operator

    began = time.monotonic()
    own = " ".join(str(path) for path in sorted(Path("tests", room).rglob(f"test_{one.module_path.name}")))
    with use_mutation(one.module_path, get_operator(one.operator_name)(**one.operator_args), one.occurrence) as codes:
        killed = any(noticed(tests) for tests in (own, " ".join(ROOMS[room])) if tests)
    place = f"{one.module_path.relative_to(PACKAGE)}:{one.start_pos[0]}"
    print(f"{'killed  ' if killed else 'SURVIVED'} {place} {one.operator_name} ({time.monotonic() - began:.0f} s)")
    if not killed:
        before, after = (code.splitlines() for code in codes)
        print("\n".join(line for line in difflib.unified_diff(before, after, n=0) if line[:3] not in ("---", "+++")))
    sys.stdout.flush()
    return killed


def row(room: str, killed: int, count: int) -> str:
    """Return a line of the table, with Wilson's interval for the share."""
    if not count:
        return f"| {room} | 0 | 0 | | |"
    share, z = killed / count, 1.96
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count)) / (1 + z * z / count)
    return f"| {room} | {count} | {killed} | {share:.0%} | {middle - half:.0%} to {middle + half:.0%} |"


if __name__ == "__main__":
    sys.exit(main())
