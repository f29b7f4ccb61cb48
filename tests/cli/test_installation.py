import re
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

import normxlogit
from normxlogit.cli import installation

NO_ABILITY = {"all", "dev", "docs", "test"}
"""Extras for those who work on the library."""


def test_every_extra_that_adds_an_ability_is_listed():
    tomllib = pytest.importorskip("tomllib", reason="Python 3.10 has none")
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {*installation.ABILITIES} == {*project["optional-dependencies"]} - NO_ABILITY


def test_errors_name_extras_that_the_doctor_knows():
    source = Path(normxlogit.__file__).parent
    text = "".join(path.read_text(encoding="utf-8") for path in source.rglob("*.py"))
    assert {*re.findall(r"normxlogit\[([a-z-]+)\]", text)} <= {*installation.ABILITIES}


def test_a_package_of_an_extra_alone_is_not_required():
    required = {package.name for package in installation.required_packages()}
    assert {"torch", "transformers", "numpy"} <= required
    assert not required & {package.name for package in installation.packages_of("app")}


@pytest.mark.parametrize(("installed", "fits"), [("10.0", True), ("11.0rc1", True), ("9.5", False), (None, False)])
def test_a_version_fits_or_not(installed, fits, monkeypatch):
    def version(name):
        if installed is None:
            raise PackageNotFoundError(name)
        return installed

    monkeypatch.setattr(installation, "version", version)
    (package,) = installation.packages_of("vision")
    assert package == installation.Package("pillow", ">=10", installed, fits)


def test_a_library_that_is_not_installed_shows_the_versions_it_stands_on(monkeypatch):
    def requires(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(installation, "requires", requires)
    packages = installation.required_packages()
    assert [package.name for package in packages] == [*installation.FOUNDATIONS]
    assert all(package.installed and package.fits for package in packages)
    assert installation.packages_of("app") == []
