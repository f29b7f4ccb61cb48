"""What is released: a wheel that holds the package, and an sdist whose tests can run."""

import pytest

pytest.importorskip("build")
from scripts import release


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return release.build(tmp_path_factory.mktemp("dist"), "--no-isolation")


def test_the_wheel_holds_the_package_and_the_sdist_what_its_tests_read(built):
    wheel, sdist = built
    assert release.wheel_problems(wheel) == []
    assert release.sdist_problems(sdist) == []


def test_an_index_would_take_them_and_the_wheel_holds_nothing_else(built):
    pytest.importorskip("twine")
    pytest.importorskip("check_wheel_contents")
    assert release.index_problems(*built) == []
