"""Try the package with other versions of Python, torch and transformers, each set in a fresh environment.

Usage: python scripts/versions.py                       # all SETS, as before a release
       python scripts/versions.py oldest newest --fast  # what CI runs
       python scripts/versions.py 4.57 -- tests/contract/test_loading.py

`uv` (pip install uv) makes the environments from package registries alone. A set has the package, its core dependencies
and what the promises of the core need; every set runs these promises (`--fast`: some files of them), and prints a row
of the table in docs/testing.md. Where UV_FIND_LINKS names a folder with builds of torch for CPUs, they are taken.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PROMISES = ROOT / "tests" / "contract"

TOOLS = ["accelerate", "captum", "datasets", "duckdb", "hypothesis", "matplotlib", "pandas", "peft", "polars"]
TOOLS += ["pyarrow", "pytest", "pytest-timeout", "pytest-xdist", "scikit-learn", "sentencepiece", "soundfile"]
"""What runs the tests, and what single promises compare with."""

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


class Set(NamedTuple):
    """One environment: the Python, and the versions that are named in it; everything else is the newest that fits."""

    python: str
    packages: tuple[str, ...]


SETS = {
    "oldest": Set(
        "3.10", ("torch==2.5.1", "transformers==4.51.0", "numpy==1.26.0", "safetensors==0.4.3", "rich==13.8")
    ),
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
    before, tests = _divided(sys.argv[1:])
    arguments = parser.parse_args(before)
    if unknown := sorted({*arguments.sets} - SETS.keys()):
        parser.error(f"there is no set {unknown[0]!r}, but {', '.join(SETS)}")
    tests = tests or (FAST if arguments.fast else [str(path) for path in sorted(PROMISES.glob("test_*.py"))])
    rows = [_tried(name, arguments, tests) for name in arguments.sets]
    print("\n| set | versions | promises |\n|---|---|---|")
    print("\n".join(f"| {name} | {versions} | {verdict} |" for name, versions, verdict in rows))
    return int(any(" failed" in verdict or "not tried" in verdict for _, _, verdict in rows))


def _divided(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Return the arguments before and after "--"."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return arguments[:end], arguments[end + 1 :]


def _tried(name: str, arguments: argparse.Namespace, tests: list[str]) -> tuple[str, str, str]:
    """Make an environment and run tests in it; return its row of the table."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="normxlogit-versions-") as folder:
        try:
            python = _environment(Path(folder), SETS[name], arguments)
        except subprocess.CalledProcessError:
            return name, ", ".join(SETS[name].packages), "not tried: the environment could not be made"
        versions = _installed(python)
        print(f"\n== {name}: {versions}", flush=True)
        command = [
            python,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-n",
            arguments.workers,
            *OLD_AND_NEW,
            *tests,
        ]
        unset = {"PYTHONPATH", "VIRTUAL_ENV"}  # what is tried is the package as it is installed
        environment = {key: value for key, value in os.environ.items() if key not in unset}
        run = subprocess.run(command, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, check=False)  # noqa: S603
    print(run.stdout, flush=True)
    summary = run.stdout.strip().rpartition("\n")[2].partition(" in ")[0]
    return name, versions, f"{summary}; {(time.monotonic() - began) / 60:.0f} minutes"


def _environment(home: Path, chosen: Set, arguments: argparse.Namespace) -> str:
    """Make an environment with the package and the versions of a set; return its interpreter."""
    _uv("venv", "--quiet", "--python", arguments.python or chosen.python, str(home / "venv"))
    python = str(home / "venv" / "bin" / "python")
    packages = [
        f"torch=={arguments.torch}" if arguments.torch and name.startswith("torch==") else name
        for name in chosen.packages
    ]
    _uv("pip", "install", "--quiet", "--python", python, str(ROOT), *packages, *TOOLS)
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
