"""Run the promises of all others without each wing: on a copy of the package that lacks the wing's folder.

Usage: python scripts/without_wings.py [WING ...] [-- pytest arguments]
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE, PROMISES = ROOT / "src" / "normxlogit", ROOT / "tests" / "contract"

WINGS = ("decompositions",)
"""Folders of the package that can be deleted; the promises of each lie in a folder of its name in tests/contract."""


def promises_hold_without(wing: str, arguments: list[str]) -> bool:
    """Return whether the promises of all others pass on a copy of the package without a wing."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(PACKAGE, Path(folder) / "normxlogit", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.rmtree(Path(folder) / "normxlogit" / wing)
        command = [sys.executable, "-m", "pytest", str(PROMISES), f"--ignore={PROMISES / wing}", *arguments]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join((folder, str(ROOT)))}
        return subprocess.run(command, cwd=ROOT, env=environment).returncode == 0  # noqa: S603


def main(arguments: list[str]) -> None:
    """Run for the wings named, or all.

    Raises:
        SystemExit: If a promise of another does not hold without a wing.
    """
    end = arguments.index("--") if "--" in arguments else len(arguments)
    wings, pytest_arguments = arguments[:end] or WINGS, arguments[end + 1 :]
    needed = [wing for wing in wings if not promises_hold_without(wing, pytest_arguments)]
    if needed:
        raise SystemExit(f"promises of others need {', '.join(needed)}")


if __name__ == "__main__":
    main(sys.argv[1:])
