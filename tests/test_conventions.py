"""How the code is kept: what no linter reads."""

import ast
import json
from pathlib import Path

from normxlogit import extending
from normxlogit.tasks.base import Generates, Task
from normxlogit.tasks.task_outputs import AnswerPosition, Outputs
from scripts import architecture
from scripts.without_wings import DELETABLE

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "normxlogit"

MOST_BRANCHES = 15
"""Of a function, with those of the functions inside it."""

EXCEPTIONS = ROOT / "tests" / "data" / "functions_with_more_branches.json"
"""How many branches each function has that has more; a function that is simpler now leaves the list."""

BRANCHES = (
    ast.If, ast.IfExp, ast.For, ast.AsyncFor, ast.While, ast.comprehension, ast.ExceptHandler, ast.Assert,
    ast.match_case,
)  # fmt: skip


def test_the_listed_mutations_are_of_the_code_as_it_is():
    """A change that no longer fits is never tried, and its test never judged."""
    listed = json.loads((ROOT / "scripts" / "listed_mutations.json").read_text(encoding="utf-8"))
    assert listed
    for one in listed:
        code = (ROOT / one["path"]).read_text(encoding="utf-8")
        assert code.count(one["old"]) == 1, f"{one['path']}: {one['breaks']}"
        assert all((ROOT / path).exists() for path in one["tests"].split()), one["tests"]


def test_no_function_has_more_branches_than_a_reader_follows():
    """Ruff's complexity counts neither conditional expressions nor comprehensions nor boolean operators; this does."""
    listed = json.loads(EXCEPTIONS.read_text(encoding="utf-8"))
    counts = {
        f"{path.relative_to(PACKAGE).as_posix()}::{name}": count
        for path in sorted(PACKAGE.rglob("*.py"))
        for name, count in functions_with_branches(ast.parse(path.read_text(encoding="utf-8")))
    }
    beyond = {name: count for name, count in counts.items() if count > listed.get(name, MOST_BRANCHES)}
    assert not beyond, "part these functions: they have more branches than the number says, or than they had"
    simpler = {name: counts.get(name) for name, count in listed.items() if counts.get(name, 0) < count}
    assert not simpler, f"these functions have fewer branches now: say so in {EXCEPTIONS.relative_to(ROOT)}"


def functions_with_branches(tree, prefix=""):
    """Yield the qualified name of each function, and one more than the branches in it, those of expressions too."""
    for node in ast.iter_child_nodes(tree):
        name = f"{prefix}{getattr(node, 'name', '')}"
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield name, 1 + sum(map(branches_of, ast.walk(node)))
        is_scope = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        yield from functions_with_branches(node, f"{name}." if is_scope else prefix)


def branches_of(node):
    if isinstance(node, ast.BoolOp):
        return len(node.values) - 1
    further_conditions = len(node.ifs) if isinstance(node, ast.comprehension) else 0
    return isinstance(node, BRANCHES) + further_conditions


def test_the_core_names_no_wing():
    """Not in an import at the top, in none inside a function, and not in a string."""
    graph = architecture.module_imports()
    core = {module for module in graph if architecture.room_of(module) not in {*DELETABLE, "__main__"}}
    named = {(module, other) for module in core for other in graph[module] if architecture.room_of(other) in DELETABLE}
    assert named == set()


def test_the_core_calls_nothing_that_a_wing_registers():
    calls = {name for wing in extending.wings().values() for name in wing.calls}
    used = {
        (path.relative_to(PACKAGE).as_posix(), node.attr)
        for path in PACKAGE.rglob("*.py")
        if path.relative_to(PACKAGE).parts[0] not in DELETABLE
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in calls
    }
    assert "cite" in calls
    assert used == set()


FACTS = {
    "name", "models", "tokenizer", "processor", "result_kind",
    "outputs", "labels", "kind", "outcomes", "vocabulary",
    "position", "pooled", "token_per_output", "left_to_right",
}  # fmt: skip
"""What other rooms may know of a task, its outputs and its position; everything else they ask its methods."""


def is_of_task(node):
    """Return whether an expression is a task, its outputs or its position, as in `model.task.position`."""
    if isinstance(node, ast.Attribute) and node.attr in ("outputs", "position"):
        node = node.value
    return isinstance(node, ast.Attribute) and node.attr == "task"


def test_rooms_know_facts_of_a_task_and_ask_it_everything_else():
    asked, compared = set(), set()
    for path in PACKAGE.rglob("*.py"):
        if path.relative_to(PACKAGE).parts[0] in ("tasks", *DELETABLE):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and is_of_task(node.value):
                asked.add(node.attr)
            if isinstance(node, ast.Compare):
                compared |= {ast.unparse(side) for side in (node.left, *node.comparators)}
    methods = {name for kind in (Task, Generates, Outputs, AnswerPosition) for name in dir(kind)} - FACTS
    assert {"encode", "vocabulary", "pooled"} <= asked
    assert asked - methods <= FACTS
    assert not [side for side in compared if side.endswith("task.name")], "no room asks which task it is"


def test_rooms_have_no_circle_and_files_small_ones():
    assert architecture.circles(architecture.imports()) == []
    assert max(map(len, architecture.circles(architecture.module_imports()))) <= 5


def test_imports_inside_functions_and_strings_count(tmp_path):
    files = {
        "__init__.py": "",
        "core/__init__.py": '"""Core."""',
        "core/plain.py": "from .. import errors\nfrom ..wing.things import Thing",
        "core/deferred.py": "def use():\n    from ..wing import things",
        "core/string.py": 'HOME = f"normxlogit.wing.{__name__}"\nOTHER = "normxlogit.wing.things:Thing"',
        "core/typed.py": "if TYPE_CHECKING:\n    from ..wing.things import Thing",
        "core/extension.py": 'EXTENSION = "normxlogit.wing.things:Thing"',
        "errors.py": "from .core import plain",
        "wing/__init__.py": '"""Wing."""',
        "wing/things.py": "from ..core.string import HOME",
        "explainer.py": '"""Front door."""',
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    graph = architecture.module_imports(tmp_path)
    things = "normxlogit.wing.things"
    assert graph["normxlogit.core.plain"] == {"normxlogit.errors", things}
    assert graph["normxlogit.core.deferred"] == {things}
    assert graph["normxlogit.core.string"] == {"normxlogit.wing", things}
    assert graph["normxlogit.core.typed"] == graph["normxlogit.core.extension"] == set()
    assert architecture.circles(graph) == [
        ["normxlogit.core.plain", "normxlogit.errors"],
        ["normxlogit.core.string", things],
    ]
    assert architecture.circles(architecture.imports(tmp_path)) == [["core", "wing"]]
