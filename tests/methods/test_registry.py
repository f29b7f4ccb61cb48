"""The registry: what is there, how others add to it, and what it says when something is not there."""

import importlib.util
import inspect
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from normxlogit import Explainer, MethodError, list_methods
from normxlogit.methods import registry
from tests import tiny

DOCS = Path(__file__).parent.parent.parent / "docs" / "methods"


def test_alternatives_name_the_methods_that_need_nothing_special():
    said = registry.alternatives()
    assert said.startswith("normxlogit")
    assert said.endswith("work on any model with a head")
    universal = {m.name for m in list_methods() if m.needs == registry.ANY_MODEL}
    assert all(name in said for name in universal)
    assert "input-norm" not in said


def test_alternatives_can_be_asked_for_layers():
    assert registry.alternatives(per_layer=True) == "normxlogit or logat work on any model with a head"


# --- methods of other packages ----------------------------------------------------------------------------------------


@pytest.fixture
def fresh(monkeypatch):
    """A registry that has not looked at entry points yet and forgets what a test adds."""
    monkeypatch.setattr(registry, "_METHODS", dict(registry._METHODS))
    monkeypatch.setattr(registry, "_loaded", False)
    for name in ("your_package", "your_package.methods"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield
    for name in ("your_package", "your_package.methods"):
        sys.modules.pop(name, None)


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", (DOCS / "your-own.md").read_text(encoding="utf-8"), re.M | re.S)


def install(folder, code, entry_points):
    """Lay a package out as an installer would."""
    package = folder / "your_package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "methods.py").write_text(code, encoding="utf-8")
    meta = folder / "your_package-1.0.dist-info"
    meta.mkdir()
    (meta / "METADATA").write_text("Metadata-Version: 2.1\nName: your-package\nVersion: 1.0\n", encoding="utf-8")
    (meta / "entry_points.txt").write_text(entry_points, encoding="utf-8")


def test_the_example_in_the_docs_is_found_by_its_entry_point(fresh, monkeypatch, tmp_path):
    (code,), (toml,) = blocks("python"), blocks("toml")
    assert toml.startswith('[project.entry-points."normxlogit.methods"]')
    install(tmp_path, code, toml.replace('project.entry-points."normxlogit.methods"', registry.GROUP).replace('"', ""))
    monkeypatch.syspath_prepend(tmp_path)
    info = registry.describe("distance-to-output")
    assert info in list_methods()
    assert (info.settings, info.paper, info.signed) == ({"p": 2.0}, "this page", False)
    assert info.summary == "How far each token's final representation is from the mean of all."
    model, made = tiny.model("bert"), tiny.tokenizer_for("bert")
    found = Explainer(model, made)(tiny.TEXTS, method="distance-to-output", p=1)
    with torch.no_grad():
        hidden = model.bert(**made(tiny.TEXTS[0], return_tensors="pt")).last_hidden_state[0]
    expected = (hidden - hidden.mean(0)).abs().sum(-1)
    np.testing.assert_allclose(found[0].scores, expected, rtol=1e-4)
    with pytest.raises(MethodError, match="distance-to-output: p must be positive"):
        Explainer(model, made)(tiny.TEXTS[0], method="distance-to-output", p=-1)


def test_a_broken_package_costs_its_own_methods_only(fresh, monkeypatch, tmp_path):
    install(tmp_path, "import no_such_package", f"[{registry.GROUP}]\nbroken = your_package.methods\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.warns(UserWarning, match=r"your_package.methods .*'broken'.* could not be loaded.*no_such_package"):
        names = [m.name for m in list_methods()]
    assert "normxlogit" in names


def test_names_are_taken_once(fresh):
    with pytest.raises(MethodError, match="'logat' is registered already"):

        @registry.register("logat", paper="nobody")
        class Another:
            pass


def test_unknown_names_and_settings_have_hints():
    with pytest.raises(MethodError, match=r"did you mean .*integrated-gradients"):
        registry.describe("integrated-gradient")
    with pytest.raises(MethodError, match=r"there are .*normxlogit"):
        registry.describe("zzz")
    with pytest.raises(MethodError, match="it has norm_of"):
        registry.create("normxlogit", {"norm": 1})
    with pytest.raises(MethodError, match="it has no settings"):
        registry.create("logat", {"norm": 1})


# --- what the docs say ------------------------------------------------------------------------------------------------


def test_every_method_says_what_it_is():
    for m in list_methods():
        assert m.summary.endswith((".", ";")) or ":" in m.summary, m.name
        assert m.paper, m.name
        assert m.needs, m.name
        assert m.passes, m.name
        assert all(value is not inspect.Parameter.empty for value in m.settings.values()), m.name


def test_the_docs_table_is_what_is_registered():
    spec = importlib.util.spec_from_file_location("method_table", DOCS.parent.parent / "scripts" / "method_table.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    page = (DOCS / "index.md").read_text(encoding="utf-8")
    assert script.written(page) == page, "run: python scripts/method_table.py"


@pytest.mark.parametrize("module", ["gradient", "normxlogit", "perturbation"])
def test_every_method_has_a_page(module):
    names = [m.name for m in list_methods() if m.factory.__module__ == f"normxlogit.methods.{module}"]
    assert names
    for name in names:
        page = (DOCS / f"{name.removesuffix('-signed')}.md").read_text(encoding="utf-8")
        assert page.startswith(f"# {name.removesuffix('-signed')}")
        assert name in page.splitlines()[0]
        for part in ("**Needs:**", "**Cost:**", "**Use it**"):
            assert part in page, (name, part)
