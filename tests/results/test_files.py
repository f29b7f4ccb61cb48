import os
from functools import reduce
from pathlib import Path

import pytest

from normxlogit import DataError
from normxlogit.results.storage import files


@pytest.fixture
def old(tmp_path):
    path = tmp_path / "why.json"
    path.write_text("old and good")
    return path


def test_permissions_stay_and_new_files_get_the_usual_ones(old):
    old.chmod(0o640)
    files.write_text("new", old)
    assert old.stat().st_mode & 0o777 == 0o640
    mask = os.umask(0o027)
    try:
        files.write_text("new", old.parent / "other")
    finally:
        os.umask(mask)
    assert (old.parent / "other").stat().st_mode & 0o777 == 0o640


def test_links_stay_links_and_devices_are_written_directly(old):
    link = old.parent / "link.json"
    link.symlink_to(old)
    files.write_text("new", link)
    assert link.is_symlink()
    assert old.read_text() == "new"
    files.write_text("nothing", os.devnull)
    assert not Path(os.devnull).is_file()


def nested(depth):
    return [nested(depth - 1)] if depth else []


@pytest.mark.parametrize("state", [{"a": object()}, {("a", "b"): 1}, [float("nan")], {"a": float("inf")}])
def test_what_json_does_not_have_is_refused(state, tmp_path):
    with pytest.raises(DataError):
        files.write_json({"state": state}, tmp_path / "state.json")
    assert not [*tmp_path.iterdir()]


def test_what_is_nested_too_deeply_for_json_is_refused():
    state = nested(100)
    for _ in range(20):
        state = reduce(lambda inner, _: [inner], range(5_000), state)
    with pytest.raises(DataError):
        files.json_text(state)


@pytest.mark.parametrize("state", [{"a": [1, 2.5, None, True, "ü\u2028\x7f\ud800"]}, [], "text", 3])
def test_json_comes_back_without_characters_that_a_terminal_must_not_show(state, tmp_path):
    path = tmp_path / "state.json"
    files.write_json(state, path)
    assert files.read_json(path) == state
    assert not {"\u2028", "\x7f"} & set(path.read_text())
