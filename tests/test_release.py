"""What is released: a wheel that holds the package, and an sdist whose tests can run."""

import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest

pytest.importorskip("build")
from scripts import release


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return release.build(tmp_path_factory.mktemp("dist"), "--no-isolation")


def test_the_wheel_holds_the_package_and_nothing_else(built, tmp_path):
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


def test_the_sdist_holds_what_its_tests_read(built, tmp_path):
    _, sdist = built
    assert release.sdist_problems(sdist) == []
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    worse = tmp_path / "worse.tar.gz"
    shutil.rmtree(next(tmp_path.glob("normxlogit-*")) / "docs" / "methods")
    with tarfile.open(worse, "w:gz") as archive:
        archive.add(next(tmp_path.glob("normxlogit-*")), "normxlogit-0")
    assert "the sdist lacks docs/methods/decompositions.md" in release.sdist_problems(worse)


def test_an_index_would_take_them(built):
    pytest.importorskip("twine")
    command = [sys.executable, "-m", "twine", "check", "--strict", *map(str, built)]
    assert subprocess.run(command, capture_output=True, text=True, check=False).returncode == 0
