"""How many examples are tried: the same few at every run, or many new ones with HYPOTHESIS_PROFILE=long.

And the example packages, installed.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

COMMON = {"deadline": None, "database": None, "suppress_health_check": list(HealthCheck)}

settings.register_profile("few", max_examples=3, derandomize=True, **COMMON)
settings.register_profile("long", max_examples=100, print_blob=True, **COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "few"))

EXAMPLES = Path(__file__).parents[2] / "examples" / "extensions"


@pytest.fixture(scope="session")
def extensions_installed(tmp_path_factory):
    """Lay the packages of examples/extensions out as an installer would; return what runs Python beside them."""
    folder = tmp_path_factory.mktemp("site-packages")
    for project in EXAMPLES.glob("*/pyproject.toml"):
        lay_out(project.parent, folder)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *filter(None, sys.path)])}

    def run(*arguments, path=()):
        paths = os.pathsep.join([*map(str, path), environment["PYTHONPATH"]])
        command = [sys.executable, "-W", "error::UserWarning:normxlogit", *map(str, arguments)]
        program = subprocess.run(command, capture_output=True, env=environment | {"PYTHONPATH": paths}, text=True)
        return program.returncode, program.stdout, program.stderr

    return run


def lay_out(project, folder):
    """Put a package into a folder, with what its pyproject.toml says of its entry points."""
    name = f"normxlogit_{project.name}"
    (folder / name).symlink_to(project / name, target_is_directory=True)
    settings = (project / "pyproject.toml").read_text(encoding="utf-8")
    group, entries = re.search(r'^\[project\.entry-points\."(.+)"\]\n((?:.+\n)+)', settings, re.M).groups()
    metadata = folder / f"{name}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: normxlogit-{project.name}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[{group}]\n" + entries.replace('"', ""))
