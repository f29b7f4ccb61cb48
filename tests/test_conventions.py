"""How the code is kept: what no linter reads."""

import json
from pathlib import Path

from scripts import architecture
from scripts.without_wings import DELETABLE

ROOT = Path(__file__).parent.parent


def test_the_listed_mutations_are_of_the_code_as_it_is():
    """A change that no longer fits is never tried, and its test never judged."""
    listed = json.loads((ROOT / "scripts" / "listed_mutations.json").read_text(encoding="utf-8"))
    assert listed
    for one in listed:
        code = (ROOT / one["path"]).read_text(encoding="utf-8")
        assert code.count(one["old"]) == 1, f"{one['path']}: {one['breaks']}"
        assert all((ROOT / path).exists() for path in one["tests"].split()), one["tests"]


def test_the_core_names_no_wing():
    """Not in an import at the top, in none inside a function, and not in a string."""
    graph = architecture.module_imports()
    core = {module for module in graph if architecture.room_of(module) not in {*DELETABLE, "__main__"}}
    named = {(module, other) for module in core for other in graph[module] if architecture.room_of(other) in DELETABLE}
    assert named == set()


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
