"""The docs keep their word: code runs, commands exist, and what is drawn from the code is up to date."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parent.parent


def house():
    spec = importlib.util.spec_from_file_location("house", ROOT / "scripts" / "house.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_architecture_page_shows_the_rooms_as_they_import_each_other():
    script = house()
    assert script.written() == script.PAGE.read_text(encoding="utf-8"), "run: python scripts/house.py"


def test_the_drawn_imports_are_those_of_the_files(tmp_path):
    package = tmp_path / "normxlogit"
    files = {
        "explainer.py": "from .upper.front import go\nimport json",
        "lower/__init__.py": '"""Below.\n\nMore."""',
        "lower/ground.py": "def late():\n    from ..middle import floor",
        "middle/__init__.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ..upper import front",
        "middle/floor.py": "from . import other\nimport normxlogit.lower.ground",
        "upper/__init__.py": "from normxlogit.middle.floor import x",
        "upper/front.py": "from .. import lower\nfrom ..errors import DataError",
    }
    for name, text in files.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(text, encoding="utf-8")
    script = house()
    assert script.rooms(package) == {"explainer": "", "lower": "Below.", "middle": "", "upper": ""}
    found = script.imports(package)
    assert found == {"explainer": {"upper"}, "lower": {"middle"}, "middle": {"lower"}, "upper": {"middle", "lower"}}
    assert script.arrows(found | {"lower": set()})["upper"] == {"middle"}
