import importlib
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from normxlogit import ALL, Explainer, ExtensionError, MethodError, list_methods
from normxlogit.methods import Method, method_named, registry
from normxlogit.methods.other_names import OTHER_NAMES, letters, other_name
from normxlogit.methods.registry import alternatives
from normxlogit.methods.settings import Setting, parse
from normxlogit.results.storage.schema import setting_text
from tests import tiny

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs" / "methods"


@pytest.fixture
def fresh(monkeypatch):
    monkeypatch.setattr(registry, "_METHODS", dict(registry._METHODS))
    monkeypatch.setattr(registry, "_CLASSES", dict(registry._CLASSES))


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", (DOCS / "your-own.md").read_text(encoding="utf-8"), re.M | re.S)


def test_the_example_in_the_docs_is_a_method(fresh, monkeypatch, tmp_path):
    code, use = blocks("python")
    (tmp_path / "distance.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("distance")
    info = registry.describe("distance-to-mean")
    assert info in list_methods()
    assert (info.paper, info.signed, info.per_layer) == ("this page", False, False)
    assert info.summary == "How far each token's final representation is from the mean of all."
    assert {name: (s.default, s.allowed) for name, s in info.settings.items()} == {"p": (2.0, "a number")}
    model, made = tiny.model("bert"), tiny.tokenizer_for("bert")
    found = Explainer(model, made)(tiny.TEXTS, method="distance-to-mean:p=1")
    with torch.no_grad():
        hidden = model.bert(**made(tiny.TEXTS[0], return_tensors="pt")).last_hidden_state[0]
    expected = (hidden - hidden.mean(0)).abs().sum(-1)
    np.testing.assert_allclose(found[0].scores, expected, rtol=1e-4)
    assert (found[0].method, dict(found[0].settings)) == ("distance-to-mean", {"p": 1.0})
    for p, message in (("-1", "p must be positive"), ("nan", "p must be a number, not 'nan'"), ("one", "a number")):
        with pytest.raises(MethodError, match=f"distance-to-mean: .*{message}"):
            Explainer(model, made)(tiny.TEXTS[0], method=f"distance-to-mean:p={p}")
    with pytest.raises(MethodError, match="gives no scores for single layers"):
        Explainer(model, made)(tiny.TEXTS[0], method="distance-to-mean", layers=ALL)
    exec(compile(use, "your-own.md", "exec"), {"DistanceToMean": info.cls})


def test_what_a_method_is_is_said_by_name():
    with pytest.raises(TypeError, match="positional argument"):
        registry.register("mine", "nobody")


OTHERS = {"norm_of": "word_embedding", "seed": 3, "aggregate": "l2", "protocol": "published", "steps": 7, "window": 2}
OTHERS |= {"samples": 10, "alpha": 1e-05, "sink_threshold": 5.0, "rollout": False, "point": 0.5}
"""A value for each setting that is not its default."""


def changed(info):
    settings = {name: OTHERS[name] for name in info.settings if name in OTHERS}
    return info.cls(**settings | ({"aggregate": "head"} if info.name == "decompx" else {}))


@pytest.mark.parametrize("info", list_methods(), ids=lambda info: info.name)
def test_every_method_reads_back_from_its_spec(info):
    plain, other = info.cls(), changed(info)
    assert plain.spec == info.name
    assert method_named(info.name) == plain
    assert method_named(other.spec) == other
    assert method_named(other.spec).settings == other.settings
    if info.settings:
        assert other != plain
        assert other.spec.startswith(f"{info.name}:")
    assert {name for name in info.settings if f"{name}=" in other.spec} >= set(info.settings) - {"baseline", "read_at"}
    spelled_out = info.name + ":" + ",".join(f"{k}={setting_text(v)}" for k, v in plain.settings.items())
    assert method_named(spelled_out) == plain, "defaults may be written too"


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [(bool, True, "true"), (float, 1e-05, "1e-05"), (int | None, 7, "7"), (str | None, None, "none")],
)
def test_a_setting_is_written_as_text_and_read_from_it(kind, value, text):
    assert setting_text(value) == text
    found = parse(Setting("s", None, kind), text)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize("entry", OTHER_NAMES, ids=lambda entry: entry.names[0])
def test_a_name_elsewhere_leads_to_one_method_here(entry):
    assert method_named(entry.here).spec == entry.here
    for name in entry.names:
        assert other_name(name) is entry, "no name is listed twice"
        assert letters(name) not in {letters(info.name) for info in list_methods()}


@pytest.mark.parametrize("method", ["normxlogit", "logat", "frozen-gradient"])
def test_methods_of_layers_score_each_of_them(method):
    explainer = tiny.explainer("bert", max_position_embeddings=12)
    every = explainer(tiny.TEXTS[0], layers=ALL, method=method)
    assert every.layers == (1, 2, 3)
    np.testing.assert_allclose(
        every.layer(2).scores, explainer(tiny.TEXTS[0], layers=[2], method=method).layer(2).scores
    )
    long = " ".join(tiny.TEXTS)
    windows = explainer(long, long_text="window", layers=ALL, method=method)
    assert windows.scores.shape == (3, len(windows.units))
    assert np.isfinite(windows.scores).all()


@pytest.mark.parametrize("module", ["aaa", "zzz"])
def test_a_name_that_is_taken_by_another_module_is_refused(fresh, module):
    taken = registry._METHODS["normxlogit"]
    other = type("Other", (Method,), {"__module__": module, "__doc__": "Another."})
    with pytest.raises(ExtensionError, match="both register 'normxlogit' in methods"):
        registry.register("normxlogit", paper="", needs="")(other)
    assert registry._METHODS["normxlogit"] is taken


def test_a_class_may_be_registered_again_by_its_own_name(fresh):
    own = type("Own", (Method,), {"score": lambda *_: None, "__doc__": "Mine."})
    for _ in range(2):
        registry.register("".join(["my", "-", "own"]), paper="", needs="")(own)
    with pytest.raises(MethodError, match="is registered already, as my-own"):
        registry.register("another", paper="", needs="")(own)


def test_methods_are_told_apart_as_keys_of_a_table():
    assert {info: info.name for info in list_methods()} == {info: info.name for info in list_methods()}


def test_what_works_on_other_models_needs_only_what_they_have():
    head, logits = {"normxlogit", "logat"}, {"occlusion", "lime", "kernel-shap"}
    assert set(alternatives().split(" work on ")[0].split(", ")) == head | logits
    assert set(alternatives(per_layer=True).split(" work on ")[0].split(", ")) == head
    assert set(alternatives(head=False).split(" need ")[0].split(", ")) == logits
