"""Build a release and check it: metadata, what is in the files, an older environment, and the sdist's tests in its own.

Run from a checkout, with a tag such as v0.2.0 on the commit for a release: python scripts/release.py [--no-tests]
`--no-tests` leaves out what makes an environment: the installation beside an older transformers, and the tests.
"""

import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent

VARIABLES = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
"""What is tried is the package as it is installed, not one on the path."""

PACKAGE = "src/normxlogit"
NEEDED = (
    "normxlogit/default_model/model.safetensors",
    "normxlogit/default_model/tokenizer.json",
    "normxlogit/app/page.js",
    "normxlogit/evaluation/reviews.jsonl",
    "normxlogit/py.typed",
    "normxlogit/render/templates/page.html.j2",
)
"""Files without which the installed package fails in a way that no import shows."""

LEFT_OUT = (".ci/", ".github/", ".gitignore", ".pre-commit-config.yaml", "site/")
"""What is in a checkout and in no sdist."""

BESIDE = ("transformers==4.57.6", "torch==2.13.0")
"""What somebody has whose model is a year old, and keeps."""

METADATA = ("License-Expression: Apache-2.0", "Requires-Python: <3.15,>=3.10", "Provides-Extra: eval")


def checkout() -> set[str]:
    """Return the files of the checkout: those of git, or all where there is none."""
    command = ["git", "ls-files"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603
    if listing.returncode == 0 and listing.stdout:
        return {name for name in listing.stdout.splitlines() if (ROOT / name).is_file()}
    names = {path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*") if path.is_file()}
    return {name for name in names if not re.search(r"(^|/)(\.[^/]+|__pycache__|dist|PKG-INFO)(/|$)", name)}


def wheel_problems(wheel: Path) -> list[str]:
    """Return what is wrong with a wheel, one line each."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = next(name for name in names if name.endswith(".dist-info/METADATA"))
        metadata_text = archive.read(metadata).decode()
    folder = metadata.partition("/")[0]  # of what pip knows of the package
    problems = [
        f"the wheel has {name}, which is not part of the package"
        for name in names
        if name.split("/")[0] not in ("normxlogit", folder)
    ]
    package = {name.removeprefix("src/") for name in checkout() if name.startswith(f"{PACKAGE}/")}
    problems += [f"the wheel lacks {name}" for name in sorted((package | set(NEEDED)) - names)]
    problems += [
        f"the wheel has {name}, which is not in the checkout"
        for name in names - package
        if name.startswith("normxlogit/")
    ]
    problems += [f"the wheel's metadata lacks {line!r}" for line in METADATA if line not in metadata_text]
    if not any(name.startswith(f"{folder}/licenses/") for name in names):
        problems.append("the wheel lacks the licence")
    return problems


def sdist_problems(sdist: Path) -> list[str]:
    """Return what is wrong with an sdist, one line each."""
    with tarfile.open(sdist) as archive:
        names = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    expected = {name for name in checkout() if not name.startswith(LEFT_OUT)}
    unexpected = names - expected - {"PKG-INFO", ".gitignore"}  # which the build adds
    problems = [f"the sdist lacks {name}" for name in sorted(expected - names)]
    return problems + [f"the sdist has {name}" for name in sorted(unexpected)]


def build(folder: Path, *options: str) -> tuple[Path, Path]:
    """Build both files and return the wheel and the sdist; the wheel is built from the sdist."""
    run([sys.executable, "-m", "build", *options, "--outdir", str(folder), str(ROOT)])
    return next(folder.glob("*.whl")), next(folder.glob("*.tar.gz"))


def index_problems(wheel: Path, sdist: Path) -> list[str]:
    """Return what an index would refuse of both files, and what does not belong into a wheel."""
    checks = (["twine", "check", "--strict", str(wheel), str(sdist)], ["check_wheel_contents", str(wheel)])
    problems = []
    for check in checks:
        command = [sys.executable, "-m", *check]
        result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603
        if result.returncode:
            problems.append(f"{check[0]}: {result.stdout}{result.stderr}")
    return problems


def beside_problems(wheel: Path, folder: Path) -> list[str]:
    """Install a wheel beside an older transformers and torch; return what that changed.

    Raises:
        subprocess.CalledProcessError: If the self-test of the installed wheel fails there.
    """
    python = environment(folder, *BESIDE)
    before = installed(python)
    run([python, "-m", "pip", "install", "--quiet", str(wheel)], folder)
    after = installed(python)
    run([python, "-m", "normxlogit", "doctor"], folder)
    return [
        f"beside {', '.join(BESIDE)}: {name} {version} became {after.get(name)}"
        for name, version in before.items()
        if after.get(name) != version
    ]


def installed(python: str) -> dict[str, str]:
    """Return the version of each package of an environment."""
    command = [python, "-m", "pip", "list", "--format", "json"]
    listing = subprocess.run(command, env=VARIABLES, capture_output=True, text=True, check=True)  # noqa: S603
    return {package["name"]: package["version"] for package in json.loads(listing.stdout)}


def run_tests(sdist: Path, folder: Path) -> None:
    """Unpack an sdist, install it with what its tests need, and run them there."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    source = folder / sdist.name.removesuffix(".tar.gz")
    python = environment(folder, "-c", f"{source}/constraints.txt", "-e", f"{source}[dev,docs]")
    run([python, "-m", "pytest", "-q", "-n", "auto", "--complete", "tests"], source)


def environment(folder: Path, *packages: str) -> str:
    """Make an environment in a folder with packages, as pip takes them, and return its interpreter."""
    venv.create(folder / "venv", with_pip=True)
    python = str(folder / "venv" / "bin" / "python")
    run([python, "-m", "pip", "install", "--quiet", *packages], folder)
    return python


def run(command: list[str], folder: Path = ROOT) -> None:
    """Run a command and stop where it fails."""
    subprocess.run(command, cwd=folder, env=VARIABLES, check=True)  # noqa: S603


def main() -> None:
    """Build into `dist`, check, and say what to upload."""
    dist = ROOT / "dist"
    for old in dist.glob("normxlogit-*"):
        old.unlink()
    wheel, sdist = build(dist)
    stop_at(index_problems(wheel, sdist) + wheel_problems(wheel) + sdist_problems(sdist))
    if "--no-tests" not in sys.argv:
        with tempfile.TemporaryDirectory() as folder:
            stop_at(beside_problems(wheel, Path(folder)))
        with tempfile.TemporaryDirectory() as folder:
            run_tests(sdist, Path(folder))
    print(f"checked: {wheel.name} ({wheel.stat().st_size / 2**20:.1f} MiB) and {sdist.name}; twine upload dist/*")


def stop_at(problems: list[str]) -> None:
    """Stop with the problems, if there are any."""
    if problems:
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main()
