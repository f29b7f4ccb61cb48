"""Run the fast part of the suite against other versions of Python and of the packages, each in a fresh environment.

Usage: python scripts/versions.py                            # all of RUNS, as before a release
       python scripts/versions.py --python 3.12 --versions oldest
       python scripts/versions.py --python /usr/bin/python3 --torch own    # a torch that the interpreter has

`uv` (pip install uv) finds the interpreters, resolves "oldest" to the lowest versions that pyproject.toml declares and
that go together, and installs wheels only. Torch comes from its index of CPU builds; `--torch 2.13.0+cpu` takes that
version from where UV_FIND_LINKS or UV_INDEX point instead, and `--torch own` leaves the interpreter's own in place.
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

EXTRAS = ("eval", "vision")
"""Extras whose code the fast part runs; the heavy ones (ray, spacy, datasets, gradio) have tests of their own."""

TOOLS = ["hypothesis>=6.100", "pytest>=8.3", "pytest-timeout>=2.3", "pytest-xdist>=3.6"]
"""What runs the tests, always as new as can be had: it is not what is tried."""

FAST = [
    "tests/inputs",
    "tests/results",
    "tests/render",
    "tests/copies",
    "tests/parts",
    "tests/model",
    "tests/loading",
    "tests/frozen",
    "tests/methods",
    "tests/pipeline",
    "tests/evaluation",
    "tests/cli/test_console.py",
    "tests/cli/test_explain.py",
    "tests/contract/test_formulas.py",
    "tests/contract/recorded/test_from_outputs.py",
    "tests/contract/test_own_answers.py",
    "tests/contract/test_right_or_refused.py",
    "tests/contract/test_round_trip.py",
    "tests/contract/test_same_in_batch.py",
    "tests/contract/test_sum_rules.py",
    "tests/contract/test_untouched_model.py",
]
"""The tests of the core; what needs a package that is not installed is skipped."""


OLD_AND_NEW = [f"-Wdefault::{kind}" for kind in ("DeprecationWarning", "PendingDeprecationWarning", "FutureWarning")]
"""Old packages call what newer ones are about to drop; that it still works is all that is asked here."""


class Run(NamedTuple):
    """One environment: the Python, and which versions of the packages."""

    python: str
    versions: str


RUNS = [
    Run("3.10", "oldest"),
    Run("3.11", "oldest"),
    Run("3.11", "newest"),
    Run("3.12", "newest"),
    Run("3.13", "newest"),
]
RESOLUTION = {"oldest": "lowest-direct", "newest": "highest"}


def main() -> int:
    """Run what was asked for and print a line for each run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--python", help="version or path of one interpreter; by default all of RUNS")
    parser.add_argument("--versions", choices=sorted(RESOLUTION), default="oldest", help="with --python")
    parser.add_argument("--torch", help="a version, or 'own' for the interpreter's; by default by --versions")
    parser.add_argument("--workers", default="auto", help="how many tests at once")
    parser.add_argument("tests", nargs="*", help="instead of the fast part")
    arguments = parser.parse_args()
    runs = [Run(arguments.python, arguments.versions)] if arguments.python else RUNS
    rows = [tried(run, arguments.torch, arguments.workers, arguments.tests or FAST) for run in runs]
    print("\n| Python | versions | result |\n|---|---|---|")
    for run, verdict in zip(runs, rows, strict=True):
        print(f"| {run.python} | {run.versions} | {verdict} |")
    return int(any(not verdict.startswith("passed") for verdict in rows))


def tried(run: Run, torch: str | None, workers: str, tests: list[str]) -> str:
    """Make the environment, run the tests in it, and return how that went."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="normxlogit-versions-") as folder:
        home = Path(folder)
        try:
            python = environment(home, run, torch)
        except subprocess.CalledProcessError:
            return "not tried: the environment could not be made"
        print(f"\n== Python {run.python}, {run.versions}: {installed(python)}", flush=True)
        command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", workers, *OLD_AND_NEW, *tests]
        unset = {"PYTHONPATH", "VIRTUAL_ENV"}  # what is tried is the package as it is installed
        clean_environment = {name: value for name, value in os.environ.items() if name not in unset}
        code = subprocess.run(command, cwd=ROOT, env=clean_environment, check=False).returncode  # noqa: S603
    return f"{'failed' if code else 'passed'} in {(time.monotonic() - began) / 60:.1f} minutes"


def environment(home: Path, run: Run, torch: str | None) -> str:
    """Make an environment with the package and the versions wanted; return its interpreter."""
    constraints, excludes = home / "constraints.txt", home / "excludes.txt"
    constraints.write_text("" if torch in (None, "own") else f"torch=={torch}\n", encoding="utf-8")
    excludes.write_text("torch\n" if torch == "own" else "", encoding="utf-8")
    uv("venv", "--quiet", "--python", run.python, *(["--system-site-packages"] * (torch == "own")), str(home / "venv"))
    uv("build", "--quiet", "--wheel", "--out-dir", str(home), str(ROOT))
    wheel = next(home.glob("*.whl"))
    python = str(home / "venv" / "bin" / "python")
    install = ["pip", "install", "--quiet", "--no-build", "--python", python]
    chosen = ["--constraints", str(constraints), "--excludes", str(excludes), "--resolution", RESOLUTION[run.versions]]
    backend = ["--torch-backend", "cpu"] * (torch is None)
    extras = [word for extra in EXTRAS for word in ("--extra", extra)]
    uv(*install, *chosen, *backend, "--requirements", "pyproject.toml", *extras)  # each named, for the lowest of each
    uv(*install, "--no-deps", str(wheel))
    constraints.write_text(uv("pip", "freeze", "--exclude", "normxlogit", "--python", python), encoding="utf-8")
    uv(*install, "--constraints", str(constraints), *TOOLS)
    return python


def installed(python: str) -> str:
    """Return the versions that the environment has of what the package stands on."""
    names = ["torch", "transformers", "tokenizers", "safetensors", "numpy", "typer", "rich", "jinja2"]
    code = f"import importlib.metadata as m; print(', '.join(f'{{n}} {{m.version(n)}}' for n in {names}))"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603


def uv(*arguments: str) -> str:
    """Run uv and return what it printed."""
    command = [sys.executable, "-m", "uv", *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT).stdout  # noqa: S603


if __name__ == "__main__":
    sys.exit(main())
