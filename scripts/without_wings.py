"""Run the promises of the core on a copy of the package without wings, and those of each wing beside the core alone.

Usage: python scripts/without_wings.py [core] [WING ...] [-- pytest arguments]
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE, PROMISES = ROOT / "src" / "normxlogit", ROOT / "tests" / "contract"

NEEDS: dict[str, tuple[str, ...]] = {
    "app": ("cli",),
    "choices": (),
    "cli": (),
    "corpora": ("long_runs", "cli"),
    "decompositions": (),
    "evaluation": ("long_runs", "cli", "plots"),
    "exports": (),
    "grounding": ("cli",),
    "interactions": ("cli",),
    "media": ("cli", "plots"),
    "model_comparison": ("long_runs", "cli"),
    "plots": (),
    "recorded": (),
    "similarity": ("cli", "plots"),
}
"""The folders of the package that can be deleted, each with those that it stands on. The promises of each lie in a
folder of its name in tests/contract."""

DELETABLE = {*NEEDS, "long_runs"}
"""The wings, and what several of them stand on."""


def promises_hold(part: str, arguments: list[str]) -> bool:
    """Return whether the promises of the core or of a wing pass on a copy of the package without what it needs not."""
    kept = {part, *NEEDS.get(part, ())}
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "normxlogit"
        shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        for wing in DELETABLE - kept:
            shutil.rmtree(copy / wing)
        promises = (
            [PROMISES, *(f"--ignore={PROMISES / wing}" for wing in NEEDS)] if part == "core" else [PROMISES / part]
        )
        command = [sys.executable, "-m", "pytest", *map(str, promises), *arguments]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join((folder, str(ROOT)))}
        return subprocess.run(command, cwd=ROOT, env=environment).returncode == 0  # noqa: S603


def main(arguments: list[str]) -> None:
    """Run for what is named, or the core and all wings.

    Raises:
        SystemExit: If a promise does not hold.
    """
    end = arguments.index("--") if "--" in arguments else len(arguments)
    parts, pytest_arguments = arguments[:end] or ["core", *NEEDS], arguments[end + 1 :]
    if broken := [part for part in parts if not promises_hold(part, pytest_arguments)]:
        raise SystemExit(f"needs more than its listed wings: {', '.join(broken)}")


if __name__ == "__main__":
    main(sys.argv[1:])
