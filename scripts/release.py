"""Build a release and check it: metadata, what is in the files, and the sdist's tests in an environment of its own.

Run from a checkout, with a tag such as v0.2.0 on the commit for a release: python scripts/release.py [--no-tests]
"""

import re
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent

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
        about = archive.read(metadata).decode()
    folder = metadata.partition("/")[0]
    problems = [
        f"the wheel has {n}, which is not part of the package"
        for n in names
        if n.split("/")[0] not in ("normxlogit", folder)
    ]
    package = {name.removeprefix("src/") for name in checkout() if name.startswith(f"{PACKAGE}/")}
    problems += [f"the wheel lacks {name}" for name in sorted((package | set(NEEDED)) - names)]
    problems += [
        f"the wheel has {n}, which is not in the checkout" for n in names - package if n.startswith("normxlogit/")
    ]
    problems += [f"the wheel's metadata lacks {line!r}" for line in METADATA if line not in about]
    if not any(name.startswith(f"{folder}/licenses/") for name in names):
        problems.append("the wheel lacks the licence")
    return problems


def sdist_problems(sdist: Path) -> list[str]:
    """Return what is wrong with an sdist, one line each."""
    with tarfile.open(sdist) as archive:
        names = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    expected = {name for name in checkout() if not name.startswith(LEFT_OUT)}
    problems = [f"the sdist lacks {name}" for name in sorted(expected - names)]
    return problems + [f"the sdist has {n}" for n in sorted(names - expected) if n not in ("PKG-INFO", ".gitignore")]


def build(folder: Path, *options: str) -> tuple[Path, Path]:
    """Build both files and return the wheel and the sdist; the wheel is built from the sdist."""
    run([sys.executable, "-m", "build", *options, "--outdir", str(folder), str(ROOT)])
    return next(folder.glob("*.whl")), next(folder.glob("*.tar.gz"))


def run_tests(sdist: Path, folder: Path) -> None:
    """Unpack an sdist, install it with what its tests need, and run them there."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    source = folder / sdist.name.removesuffix(".tar.gz")
    venv.create(folder / "venv", with_pip=True)
    python = str(folder / "venv" / "bin" / "python")
    install = [python, "-m", "pip", "install", "--quiet", "-c", "constraints.txt", "-e", ".[dev,docs]"]
    run(install, source)
    run([python, "-m", "pytest", "-q", "-n", "auto", "tests"], source)


def run(command: list[str], folder: Path = ROOT) -> None:
    """Run a command and stop where it fails."""
    subprocess.run(command, cwd=folder, check=True)  # noqa: S603


def main() -> None:
    """Build into `dist`, check, and say what to upload."""
    dist = ROOT / "dist"
    for old in dist.glob("normxlogit-*"):
        old.unlink()
    wheel, sdist = build(dist)
    run([sys.executable, "-m", "twine", "check", "--strict", str(wheel), str(sdist)])
    problems = wheel_problems(wheel) + sdist_problems(sdist)
    if problems:
        sys.exit("\n".join(problems))
    if "--no-tests" not in sys.argv:
        with tempfile.TemporaryDirectory() as folder:
            run_tests(sdist, Path(folder))
    print(f"checked: {wheel.name} ({wheel.stat().st_size / 2**20:.1f} MiB) and {sdist.name}; twine upload dist/*")


if __name__ == "__main__":
    main()
