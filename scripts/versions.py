"""Try the package with other versions of Python, torch and transformers, each set in a fresh environment.

Usage: python scripts/versions.py                       # all SETS, as before a release
       python scripts/versions.py oldest newest --fast  # what CI runs
       python scripts/versions.py 4.57 -- tests/contract/test_loading.py

`uv` (pip install uv) makes the environments from package registries alone. A set has the package with its extra
`test`, which is what the promises of the core need; the oldest has of each package the lower bound of pyproject.toml.
Every set runs these promises (`--fast`: some files of them), which gives a row of the first table in docs/testing.md,
and explains checkpoints of forty families that the first set wrote, which gives the second. Where UV_FIND_LINKS names a
folder with builds of torch for CPUs, they are taken.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
PROMISES = ROOT / "tests" / "contract"

FAST = [
    "tests/test_compat.py",
    "tests/contract/test_sum_rules.py",
    "tests/contract/test_same_in_batch.py",
    "tests/contract/test_right_or_refused.py",
    "tests/contract/test_architectures.py",
]
"""What CI runs of each set: sums of thirty families, batches, refusals, and what differs between versions."""

OLD_AND_NEW = [f"-Wdefault::{kind}" for kind in ("DeprecationWarning", "PendingDeprecationWarning", "FutureWarning")]
"""Old packages call what newer ones are about to drop; that it still works is all that is asked here."""


WHEELS_ALONE = ["--only-binary", ":all:", "--no-binary", "normxlogit"]
"""Nothing but the package is built here: the oldest of what has no wheel for a Python is not what anybody has there."""


class Set(NamedTuple):
    """One environment: the Python, the versions that are named in it, and how uv chooses the others."""

    python: str
    packages: tuple[str, ...] = ()
    resolution: str = "highest"


class Row(NamedTuple):
    """What became of a set: a row of the table."""

    name: str  # of the set
    versions: str  # of Python and of the packages that were installed
    verdict: str  # pytest's summary, or why it was not tried


SETS = {
    "oldest": Set("3.10", resolution="lowest-direct"),  # the lower bounds of pyproject.toml, of what has a wheel
    "4.57": Set("3.11", ("torch==2.13.0", "transformers==4.57.6")),
    "5.0": Set("3.11", ("torch==2.13.0", "transformers==5.0.0")),
    "5.12": Set("3.11", ("torch==2.13.0", "transformers==5.12.0")),
    "newest": Set("3.11", ("torch==2.13.0", "transformers")),
}


def main() -> int:
    """Run the sets that were named and print a row for each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("sets", nargs="*", default=list(SETS), metavar="SET", help=f"of {', '.join(SETS)}")
    parser.add_argument("--fast", action="store_true", help="the part that CI runs")
    parser.add_argument("--torch", help="a version in the place of the set's, such as one that is built for CPUs")
    parser.add_argument("--python", help="an interpreter in the place of the set's")
    parser.add_argument("--workers", default="auto", help="how many tests at once")
    own_arguments, tests = _divided(sys.argv[1:])
    arguments = parser.parse_args(own_arguments)
    if unknown := sorted({*arguments.sets} - SETS.keys()):
        parser.error(f"there is no set {unknown[0]!r}, but {', '.join(SETS)}")
    tests = tests or (FAST if arguments.fast else [str(path) for path in sorted(PROMISES.glob("test_*.py"))])
    chosen = [name for name in SETS if name in arguments.sets]
    with tempfile.TemporaryDirectory(prefix="normxlogit-versions-") as folder:
        pythons = {name: _environment_or_none(Path(folder) / name, SETS[name], arguments) for name in chosen}
        rows = [_tried(name, python, arguments.workers, tests) for name, python in pythons.items()]
        print("\n| set | versions | promises |\n|---|---|---|")
        print("\n".join(f"| {row.name} | {row.versions} | {row.verdict} |" for row in rows), "\n", flush=True)
        can_compare = len(chosen) > 1 and None not in pythons.values() and not arguments.fast
        families_differ = can_compare and _families_differ(Path(folder), pythons)
    return int(families_differ or any(" failed" in row.verdict or "not tried" in row.verdict for row in rows))


def _divided(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Return the arguments before and after "--"."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return arguments[:end], arguments[end + 1 :]


def _environment_or_none(home: Path, chosen: Set, arguments: argparse.Namespace) -> str | None:
    """Make an environment and return its interpreter; None if that is not possible."""
    try:
        return _environment(home, chosen, arguments)
    except subprocess.CalledProcessError:
        return None


def _tried(name: str, python: str | None, workers: str, tests: list[str]) -> Row:
    """Run tests in an environment; return its row of the table.

    Args:
        name: The name of the set.
        python: The environment's interpreter; None if it could not be made.
        workers: How many tests run at once, as pytest's `-n` takes it.
        tests: The tests.
    """
    if python is None:
        return Row(name, ", ".join(SETS[name].packages) or "-", "not tried: the environment could not be made")
    versions = _installed(python)
    start = time.monotonic()
    print(f"\n== {name}: {versions}", flush=True)
    options = ["-q", "-p", "no:cacheprovider", "-n", workers, *OLD_AND_NEW]
    run = _run(python, "pytest", *options, *tests, stdout=subprocess.PIPE)
    print(run.stdout, flush=True)
    summary = run.stdout.strip().rpartition("\n")[2].partition(" in ")[0]
    return Row(name, versions, f"{summary}; {(time.monotonic() - start) / 60:.0f} minutes")


def _families_differ(folder: Path, pythons: dict[str, str]) -> bool:
    """Explain models of many families in each environment, and print how those of the last set compare with others."""
    checkpoints = folder / "checkpoints"
    files = {name: str(folder / f"{name}.json") for name in pythons}
    first, last = next(iter(pythons.values())), list(pythons.values())[-1]
    _run(first, "tools.families", "write", str(checkpoints), check=True)
    for name, python in pythons.items():
        _run(python, "tools.families", "explain", str(checkpoints), files[name], check=True)
    return bool(_run(last, "tools.families", "compare", *files.values()).returncode)


def _run(python: str, module: str, *arguments: str, **options: Any) -> "subprocess.CompletedProcess[str]":
    """Run a module of this checkout with the package as it is installed in an environment."""
    unset = {"PYTHONPATH", "VIRTUAL_ENV"}
    environment = {key: value for key, value in os.environ.items() if key not in unset}
    options = {"check": False, **options}
    return subprocess.run([python, "-m", module, *arguments], cwd=ROOT, env=environment, text=True, **options)  # noqa: S603


def _environment(home: Path, chosen: Set, arguments: argparse.Namespace) -> str:
    """Make an environment with the package and the versions of a set; return its interpreter."""
    _uv("venv", "--quiet", "--python", arguments.python or chosen.python, str(home))
    python = str(home / "bin" / "python")
    packages = list(chosen.packages)
    if arguments.torch:
        packages = [name for name in packages if not name.startswith("torch==")] + [f"torch=={arguments.torch}"]
    how = ["--quiet", "--python", python, "--resolution", chosen.resolution]
    _uv("pip", "install", *how, *WHEELS_ALONE, f"{ROOT}[test]", *packages)
    return python


def _installed(python: str) -> str:
    """Return the versions that an environment has of what the package stands on."""
    names = ["torch", "transformers", "tokenizers", "numpy"]
    code = (
        "import importlib.metadata as m, platform;"
        f"print('Python', platform.python_version() + ',', ', '.join(f'{{n}} {{m.version(n)}}' for n in {names}))"
    )
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603


def _uv(*arguments: str) -> None:
    """Run uv."""
    subprocess.run([sys.executable, "-m", "uv", *arguments], check=True, cwd=ROOT)  # noqa: S603


if __name__ == "__main__":
    sys.exit(main())
