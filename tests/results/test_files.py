import os
from pathlib import Path

import pytest

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
