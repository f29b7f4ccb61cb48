"""What is released: a wheel that holds the package, and an sdist whose tests can run."""

import importlib.util
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

pytest.importorskip("build")
ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def release():
    spec = importlib.util.spec_from_file_location("release", ROOT / "scripts" / "release.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def built(release, tmp_path_factory):
    return release.build(tmp_path_factory.mktemp("dist"), "--no-isolation")


def test_the_wheel_holds_the_package_and_nothing_else(release, built, tmp_path):
    wheel, _ = built
    assert release.wheel_problems(wheel) == []
    worse = tmp_path / wheel.name
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(worse, "w") as new:
        for name in old.namelist():
            if not name.endswith("tokenizer.json"):
                new.writestr(name, old.read(name))
        new.writestr("tests/test_x.py", "")
    assert sorted(release.wheel_problems(worse)) == [
        "the wheel has tests/test_x.py, which is not part of the package",
        "the wheel lacks normxlogit/default_model/tokenizer.json",
    ]


def test_the_sdist_holds_what_its_tests_read(release, built, tmp_path):
    _, sdist = built
    assert release.sdist_problems(sdist) == []
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    worse = tmp_path / "worse.tar.gz"
    shutil.rmtree(next(tmp_path.glob("normxlogit-*")) / "docs" / "methods")
    with tarfile.open(worse, "w:gz") as archive:
        archive.add(next(tmp_path.glob("normxlogit-*")), "normxlogit-0")
    assert "the sdist lacks docs/methods/lime.md" in release.sdist_problems(worse)


def test_an_index_would_take_them(built):
    pytest.importorskip("twine")
    command = [sys.executable, "-m", "twine", "check", "--strict", *map(str, built)]
    assert subprocess.run(command, capture_output=True, text=True, check=False).returncode == 0


def test_versions_come_from_tags_and_a_folder_without_git_has_one(tmp_path):
    source = tmp_path / "source"
    (source / "src" / "normxlogit").mkdir(parents=True)
    (source / "src" / "normxlogit" / "__init__.py").write_text("")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    assert version(source, tmp_path) == "0.2.0.dev0"
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", "-C", str(source)]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], check=True)
    assert version(source, tmp_path).startswith("0.2.0.dev1+g"), "a clone without tags"
    subprocess.run([*git, "tag", "v0.3.0"], check=True)
    assert version(source, tmp_path) == "0.3.0"


def version(source, folder):
    code = "import hatchling.build, sys; print(hatchling.build.prepare_metadata_for_build_wheel(sys.argv[1]))"
    command = [sys.executable, "-c", code, str(folder)]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=True)
    lines = (folder / done.stdout.split()[-1] / "METADATA").read_text().splitlines()
    return next(line for line in lines if line.startswith("Version: ")).removeprefix("Version: ")


def test_the_citation_names_the_paper():
    state = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert state["cff-version"] == "1.2.0"
    assert state["preferred-citation"]["title"] == "NormXLogit: The Head-on-Top Never Lies"
    assert all(key in state for key in ("title", "message", "authors", "license"))
