import errno
import json
import os
from pathlib import Path

import pytest

from normxlogit.cli import console
from normxlogit.errors import DataError
from normxlogit.results.storage import files
from tests.factories import make_attribution

WRITERS = {
    "text": lambda path: files.write_text("new", path),
    "bytes": lambda path: files.write_bytes(b"new", path),
    "json": lambda path: files.write_json({"new": 1}, path),
    "save": lambda path: make_attribution().save(path),
    "to_html": lambda path: make_attribution().to_html(path),
    "deliver": lambda path: console.deliver("new", path),
}


@pytest.fixture
def old(tmp_path):
    path = tmp_path / "why.json"
    path.write_text("old and good")
    return path


@pytest.mark.parametrize("name", ["why.html", "why.png", "why"])
def test_a_result_is_not_saved_under_the_name_of_something_else(name, tmp_path):
    with pytest.raises(DataError, match=r"must end in \.json, \.parquet or \.csv"):
        make_attribution().save(tmp_path / name)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_a_file_is_replaced(write, old):
    write(old)
    assert old.read_text() != "old and good"
    assert os.listdir(old.parent) == ["why.json"]


def test_an_interrupt_leaves_the_old_file(old):
    def interrupted():
        with files.replacing(old) as beside:
            beside.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert old.read_text() == "old and good"
    assert os.listdir(old.parent) == ["why.json"]


def test_the_data_is_on_the_disk_before_the_name_changes(old, monkeypatch):
    steps = []
    fsync, replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda handle: (steps.append("fsync"), fsync(handle)))
    monkeypatch.setattr(Path, "replace", lambda self, other: (steps.append("replace"), replace(self, other)))
    files.write_text("new", old)
    assert steps == ["fsync", "replace"]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("missing/why.json", "No such file"),
        (".", "it is a folder"),
        ("a\0b", "null"),
        ("x" * 300, "name too long"),
    ],
)
def test_what_cannot_be_written_is_said(name, problem, tmp_path):
    with pytest.raises(DataError, match=f"(?i)cannot write .*{problem}"):
        files.write_text("new", tmp_path / name)
    assert os.listdir(tmp_path) == []


def test_a_folder_without_permission_is_refused(old, monkeypatch):
    def refused(**_):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("tempfile.mkstemp", refused)  # root may write everywhere
    with pytest.raises(DataError, match="Permission denied"):
        files.write_text("new", old)
    assert old.read_text() == "old and good"


def test_a_read_only_file_is_refused(old, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(DataError, match="read-only"):
        files.write_text("new", old)
    assert old.read_text() == "old and good"


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


def test_json_is_readable_strict_and_shows_no_control_characters():
    state = {"text": "Früh ☕ \u202e\u2028\x9b\x1b\ud800 \u200f"}
    text = files.json_text(state)
    assert json.loads(text) == state
    assert "Früh ☕" in text
    assert not set("\u202e\u2028\x9b\x1b\ud800\u200f") & set(text)
    assert files.json_text(state, ascii_only=True).isascii()
