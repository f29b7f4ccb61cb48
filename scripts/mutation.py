"""Change the numeric core in small ways, one at a time, and see whether the tests of its room notice.

Usage: python scripts/mutation.py                                # a sample of 30 changes in each room
       python scripts/mutation.py parts --sample 60 --seed 1
       python scripts/mutation.py --minutes 60                   # as many of them as an hour allows, in turn
       python scripts/mutation.py methods --sample 0             # all of them: a day
       python scripts/mutation.py models --only positions.py
       python scripts/mutation.py --listed                       # the changes of listed_mutations.json: ten minutes

The changes are Cosmic Ray's (pip install cosmic-ray coverage). They are made in a copy of the checkout, never in it. A
sample is drawn by place: first a place in the code, then one of the changes that could be made there, so that a
comparison, which can be changed in six ways, counts no more than a number. Annotations are left alone.

Each room's tests are first run once without a change, to see which of them run which line; a change is shown to those
that run its line, files that take the least time first, until one fails. What is computed once for several tests, such
as a fixture of a module, counts for the first of them only: a change may be called alive that another test would have
noticed, never the other way round. Changes that no test needs to notice are in harmless_mutations.json.
"""

import argparse
import ast
import difflib
import itertools
import json
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Container
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from mutation_tests import PACKAGE, ROOMS, noticed, notices, prepare, watched

if TYPE_CHECKING:
    from cosmic_ray.work_item import MutationSpec

ROOT = Path(__file__).parent.parent

Verdict = Literal["killed", "harmless", "SURVIVED"]
"""What became of a change: a test failed, it is in the list of harmless ones, or no test failed."""

Mutations = dict[tuple[str, int, int], list["MutationSpec"]]
"""The changes that can be made, by their place: file, line and column."""


class Listed(NamedTuple):
    """A change by hand that a first round of mutation testing found alive, and who must notice it.

    Attributes:
        breaks: What is wrong with it.
        path: The file.
        old: What stands there, once.
        new: What is written instead.
        tests: The tests that must fail.
    """

    breaks: str
    path: str
    old: str
    new: str
    tests: str


class Harmless(NamedTuple):
    """A change that no test can notice, and need not.

    Attributes:
        path: The file.
        old: The changed line as it stands there, without the space around it.
        new: The line after the change.
        why: The reason.
    """

    path: str
    old: str
    new: str
    why: str


def main() -> int:
    """Try the rooms asked for, and print what survived and the share that was killed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("rooms", nargs="*", choices=[*ROOMS, []], help="by default all")
    parser.add_argument("--sample", type=int, default=30, help="changes in each room; 0 for all")
    parser.add_argument("--minutes", type=float, default=math.inf, help="after these, no further change is tried")
    parser.add_argument("--limit", type=float, default=300, help="seconds of tests that a change must outlive")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--record", type=Path, help="a file for what the tests run, which a later run of this code reads"
    )
    parser.add_argument("--only", help="files of this name only")
    parser.add_argument("--listed", action="store_true", help="the listed changes, and no sample")
    arguments = parser.parse_args()
    listed = [Listed(**fields) for fields in read_list("listed_mutations.json")]
    chosen = [change for change in listed if arguments.only in (None, Path(change.path).name)]
    known_harmless = [Harmless(**fields) for fields in read_list("harmless_mutations.json")]
    harmless = {(change.path, change.old, change.new) for change in known_harmless}
    with tempfile.TemporaryDirectory(prefix="normxlogit-mutation-") as folder:
        record_path = arguments.record and arguments.record.resolve()
        os.chdir(copied(Path(folder) / "checkout"))
        os.environ |= {  # of what tests start
            "PYTHONPATH": f"{Path('src').resolve()}{os.pathsep}{Path.cwd()}",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        prepare()
        if arguments.listed:
            return replayed(chosen)
        end = time.monotonic() + 60 * arguments.minutes
        drawn = {}
        for room in arguments.rooms or ROOMS:
            changes = mutations(room, arguments.only)
            drawn[room] = sampled(changes, arguments.sample, arguments.seed)
            print(f"{room}: {len(drawn[room])} of {sum(map(len, changes.values()))} changes at {len(changes)} places")
        record = watched(list(drawn), record_path)
        passing = next(iter(record.seconds))
        if noticed(passing.partition("::")[0], [passing]):
            sys.exit(f"{passing} fails in a fork without a change, so it would seem to notice every one")
        verdicts: dict[str, list[Verdict]] = {room: [] for room in drawn}
        for number in range(max(map(len, drawn.values()))):  # in turn, so that all rooms have as many when time is up
            for room in drawn:
                if number < len(drawn[room]) and time.monotonic() < end:
                    change = drawn[room][number]
                    tests = notices(record, room, change.module_path, change.start_pos, arguments.limit)
                    verdicts[room].append(tried(change, tests, harmless))
    print("\n| room | changes | harmless | survived | killed | of those not harmless | 95% interval |")
    print("|---|---|---|---|---|---|---|")
    for room, verdicts_of_room in verdicts.items():
        print(row(room, Counter(verdicts_of_room)))
    return 0


def read_list(name: str) -> list[dict[str, str]]:
    """Read a list of changes that stands beside this script."""
    changes: list[dict[str, str]] = json.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))
    return changes


def replayed(chosen: list[Listed]) -> int:
    """Make the listed changes one by one, and print which of them the tests notice; return 1 unless they notice all."""
    for tests in dict.fromkeys(change.tests for change in chosen):
        if noticed(tests):
            sys.exit(f"{tests} fails without a change, so it would seem to notice every one")
    counts = {"killed": 0, "SURVIVED": 0, "NOT THERE": 0}
    for change in chosen:
        path = Path(change.path)
        before = path.read_text(encoding="utf-8")
        if before.count(change.old) != 1:  # the code has moved on: the list must follow
            verdict = "NOT THERE"
        else:
            path.write_text(before.replace(change.old, change.new), encoding="utf-8")
            verdict = "killed" if noticed(change.tests) else "SURVIVED"
            path.write_text(before, encoding="utf-8")
        counts[verdict] += 1
        print(f"{verdict:9} {change.path}: {change.breaks}", flush=True)
    print(f"\n{len(chosen)} listed changes: {', '.join(f'{count} {verdict}' for verdict, count in counts.items())}")
    return int(counts["killed"] < len(chosen))


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
    from cosmic_ray.ast import ast_nodes, get_ast_from_path
    from cosmic_ray.plugins import get_operator, operator_names
    from cosmic_ray.work_item import MutationSpec

    changes: Mutations = {}
    for path in sorted(Path(PACKAGE, room).rglob("*.py")):
        if only not in (None, path.name):
            continue
        nodes = list(ast_nodes(get_ast_from_path(path)))
        left_alone = without_effect(path)
        for name in sorted(operator_names()):
            if get_operator(name).arguments():  # those that need settings of their own
                continue
            operator = get_operator(name)()
            positions = itertools.chain.from_iterable(map(operator.mutation_positions, nodes))
            for occurrence, (start, end) in enumerate(positions):
                if not any(begin <= start < last for begin, last in left_alone):
                    change = MutationSpec(path, name, occurrence, start, end)
                    changes.setdefault((str(path), *start), []).append(change)
    return changes


def without_effect(path: Path) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return where annotations, overloads and stars between parameters begin and end: (line, column) each."""
    places = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
            places.append((start_of(node.annotation), end_of(node.annotation)))
        elif isinstance(node, ast.FunctionDef):
            if node.returns is not None:
                places.append((start_of(node.returns), end_of(node.returns)))
            overloads = filter(is_overload, node.decorator_list)
            places += [((overload.lineno, 0), end_of(node)) for overload in overloads]
            if node.args.kwonlyargs and node.args.vararg is None:  # a star alone stands before the first of them
                before = list(map(end_of, (*node.args.posonlyargs, *node.args.args, *node.args.defaults)))
                places.append((max(before, default=start_of(node)), start_of(node.args.kwonlyargs[0])))
    return places


def start_of(node: Any) -> tuple[int, int]:
    """Return where a node begins."""
    return node.lineno, node.col_offset


def end_of(node: Any) -> tuple[int, int]:
    """Return where a node ends."""
    return node.end_lineno, node.end_col_offset


def is_overload(decorator: ast.expr) -> bool:
    """Return whether a decorator says that a function is for type checkers alone."""
    return isinstance(decorator, ast.Name) and decorator.id == "overload"


def sampled(changes: Mutations, count: int, seed: int) -> "list[MutationSpec]":
    """Draw a place, then one of the changes there, until there are `count` of them; for 0 take all at all places.

    Changes that are not Python, such as a star among the parameters that became a plus, are not drawn: every test would
    notice it. A larger sample of the same seed begins with the smaller one.
    """
    draw = random.Random(seed)  # noqa: S311  # a sample, not a secret
    places = sorted(changes)
    draw.shuffle(places)
    drawn: list[MutationSpec] = []
    for place in places:
        at_place = draw.sample(changes[place], len(changes[place]))
        valid = filter(is_python, at_place)
        drawn += valid if not count else itertools.islice(valid, 1)
        if len(drawn) == count:
            break
    return drawn


def is_python(change: "MutationSpec") -> bool:
    """Return whether a file can be compiled with a change in it."""
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    code = change.module_path.read_text(encoding="utf-8")
    try:
        operator = get_operator(change.operator_name)(**change.operator_args)
        changed = mutate_code(code, operator, change.occurrence)
        compile(changed or code, str(change.module_path), "exec")
    except (SyntaxError, AttributeError):  # the latter of Cosmic Ray itself: an exception with a dot in its name
        return False
    return changed is not None


def tried(change: "MutationSpec", tests: list[str], harmless: Container[tuple[str, str, str]]) -> Verdict:
    """Make a change, run the tests that should notice, take it back, and print what became of it.

    Args:
        change: The change.
        tests: The names of the tests.
        harmless: The path, the old and the new line of each change that is known to be harmless.
    """
    from cosmic_ray.mutating import use_mutation
    from cosmic_ray.plugins import get_operator

    began = time.monotonic()
    files = " ".join(dict.fromkeys(name.partition("::")[0] for name in tests))
    operator = get_operator(change.operator_name)(**change.operator_args)
    with use_mutation(change.module_path, operator, change.occurrence) as (code_before, code_after):
        old, new = changed_lines(code_before, code_after)
        if (str(change.module_path), old, new) in harmless:
            verdict: Verdict = "harmless"
        else:
            verdict = "killed" if tests and noticed(files, tests) else "SURVIVED"
    place = f"{change.module_path.relative_to(PACKAGE)}:{change.start_pos[0]}"
    print(f"{verdict:8} {place} {change.operator_name} ({len(tests)} tests, {time.monotonic() - began:.0f} s)")
    if verdict == "SURVIVED":
        print(f"- {old}\n+ {new}")
    sys.stdout.flush()
    return verdict


def changed_lines(before: str, after: str) -> tuple[str, str]:
    """Return the lines of a file that a change replaces, and those that stand there then, each as one line."""
    matcher = difflib.SequenceMatcher(None, before.splitlines(), after.splitlines(), autojunk=False)
    changes = [change for change in matcher.get_opcodes() if change[0] != "equal"]
    old = [line.strip() for _, start, stop, _, _ in changes for line in before.splitlines()[start:stop]]
    new = [line.strip() for _, _, _, start, stop in changes for line in after.splitlines()[start:stop]]
    return " ".join(filter(None, old)), " ".join(filter(None, new))


def row(room: str, counts: Counter[Verdict]) -> str:
    """Return a line of the table, with Wilson's interval for the share of those that are not harmless."""
    killed = counts["killed"]
    count = killed + counts["SURVIVED"]
    numbers = f"| {room} | {counts.total()} | {counts['harmless']} | {counts['SURVIVED']} | {killed} |"
    if not count:
        return f"{numbers} | |"
    share, z = killed / count, 1.96
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count)) / (1 + z * z / count)
    return f"{numbers} {share:.0%} | {middle - half:.0%} to {middle + half:.0%} |"


if __name__ == "__main__":
    sys.exit(main())
