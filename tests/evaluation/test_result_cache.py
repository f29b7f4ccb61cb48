"""Kept results: their names, and what they depend on."""

from dataclasses import dataclass

import pytest

from normxlogit import DataError
from normxlogit.evaluation.result_cache import ResultCache


@dataclass(frozen=True)
class Form:
    passes: float
    rounds: int


@dataclass(frozen=True)
class OtherForm:
    passes: float


def test_a_result_is_found_by_all_that_it_depends_on_and_nothing_else(tmp_path):
    folder = tmp_path / "new" / "cells"
    cache = ResultCache(folder, ["model", 3], Form)
    assert cache.get("lime", {"samples": 8, "alpha": 0.5}) is None
    assert cache.put({"passes": 2.5}, "lime", {"samples": 8, "alpha": 0.5}) == {"passes": 2.5}
    again = ResultCache(folder, ["model", 3], Form)
    assert again.get("lime", {"alpha": 0.5, "samples": 8}) == {"passes": 2.5}, "settings have no order"
    for other, name, settings in (
        (again, "lime", {"samples": 9, "alpha": 0.5}),
        (again, "kernel-shap", {"samples": 8, "alpha": 0.5}),
        (ResultCache(folder, ["model", 4], Form), "lime", {"samples": 8, "alpha": 0.5}),
        (ResultCache(folder, ["model", 3], OtherForm), "lime", {"samples": 8, "alpha": 0.5}),
    ):
        assert other.get(name, settings) is None
    again.put({"passes": 3.0}, "logat", {})
    assert len(list(folder.iterdir())) == 2


def test_files_keep_their_names_so_that_a_newer_version_finds_them(tmp_path):
    ResultCache(tmp_path, ["model", 3], Form).put({}, "lime", {"samples": 8, "alpha": 0.5})
    assert [path.name for path in tmp_path.iterdir()] == ["lime-f2817678f461c49c.json"]


def test_nothing_is_kept_without_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cache = ResultCache(None, [], Form)
    assert cache.put({"passes": 1.0}, "lime") == {"passes": 1.0}
    assert cache.get("lime") is None
    assert not list(tmp_path.iterdir())


def test_a_broken_file_is_named(tmp_path):
    cache = ResultCache(tmp_path, [], Form)
    cache.put({"passes": 1.0}, "lime")
    (path,) = tmp_path.iterdir()
    path.write_text('{"pas')
    with pytest.raises(DataError, match=rf"{path.name}: not JSON"):
        cache.get("lime")
