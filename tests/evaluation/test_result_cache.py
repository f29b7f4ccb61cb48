"""Kept results: their names, what they depend on, and the digest of a model's weights."""

from dataclasses import dataclass

import pytest
import torch

from normxlogit import Explainer
from normxlogit.evaluation.result_cache import ResultCache, fingerprint
from tests import tiny


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


def test_the_fingerprint_is_of_names_values_and_kind_of_the_weights():
    explainer = Explainer(tiny.model("bert"), tiny.tokenizer_for("bert"))
    found = {fingerprint(explainer)}
    module = explainer.model.module
    with torch.no_grad():
        list(module.parameters())[-1].view(-1)[-1] += 1e-6
        found.add(fingerprint(explainer))
        module.classifier.bias = torch.nn.Parameter(module.classifier.bias.to("meta"))
        found.add(fingerprint(explainer))
        module.other = module.classifier
        del module.classifier
        found.add(fingerprint(explainer))
        module.bfloat16()
        found.add(fingerprint(explainer))
    assert len(found) == 5


@pytest.mark.parametrize("count", [1, 3])
def test_the_fingerprint_is_the_same_however_many_threads_there_are(count):
    explainer = Explainer(tiny.model("bert"), tiny.tokenizer_for("bert"))
    first, threads = fingerprint(explainer), torch.get_num_threads()
    try:
        torch.set_num_threads(count)
        assert fingerprint(explainer) == first
    finally:
        torch.set_num_threads(threads)
