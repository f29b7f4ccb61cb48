"""A name that two packages register is refused, whichever field of `Extension` it is in."""

from collections.abc import Mapping
from dataclasses import fields

import pytest

from normxlogit import Explainer, ExtensionError, extending
from normxlogit.extending import AddedTask, Extension, ModelClasses
from normxlogit.methods import registry
from normxlogit.pipeline.calls import add_calls
from normxlogit.results.collection import record_type
from normxlogit.results.units.media import Medium
from normxlogit.results.units.units import kinds_of_media
from normxlogit.results.verification import parts_of_media
from normxlogit.tasks import all_tasks

FIELDS = [field.name for field in fields(Extension) if isinstance(getattr(Extension(), field.name), Mapping)]


@pytest.fixture
def installed(monkeypatch):
    """Return what installs extensions for a test, by their packages, beside this package's own."""

    def install(**added):
        clear()
        monkeypatch.setattr(extending, "extensions", lambda: {**extending.wings(), **added})

    def clear():
        for cached in (extending.references, extending.registered, extending.import_registered, all_tasks):
            cached.cache_clear()

    yield install
    monkeypatch.undo()
    clear()


def tasks(package, name="series"):
    return Extension(tasks=(AddedTask(name, f"{package}.tasks:Series", ModelClasses(plain=True)),))


@pytest.mark.parametrize("field", FIELDS)
def test_two_packages_that_register_a_name_are_named(installed, field):
    installed(**{package: Extension(**{field: {"same": f"{package}.part:thing"}}) for package in ("first", "second")})
    with pytest.raises(
        ExtensionError, match=f"^first and second both register 'same' in {field}: uninstall one of them$"
    ):
        extending.references(field)


def test_tasks_of_one_name_are_refused_also_where_one_is_the_cores(installed):
    installed(first=tasks("first"), second=tasks("second"))
    with pytest.raises(ExtensionError, match="first and second both register 'series' in tasks"):
        all_tasks()
    installed(first=tasks("first", "causal-lm"))
    with pytest.raises(ExtensionError, match="normxlogit and first both register 'causal-lm' in tasks"):
        all_tasks()


def test_names_of_the_core_are_not_registered_again(installed):
    installed(first=Extension(results={"attribution": "first.part:Thing"}, without={"target": "cite"}))
    with pytest.raises(ExtensionError, match="normxlogit and first both register 'attribution' in results"):
        record_type("attribution")
    with pytest.raises(ExtensionError, match="normxlogit and first both register 'target' in without"):
        Explainer.from_pretrained().without("a film", "film")
    with pytest.raises(ExtensionError, match=r"normxlogit and first\.part both register 'generate' in calls"):
        add_calls(Explainer, {"generate": "first.part:generate"})
    assert Explainer.generate.__module__ == "normxlogit.explainer"


def test_methods_of_one_name_are_refused():
    subclass = type("Mine", (registry.describe("logat").cls,), {"__module__": "tests"})
    with pytest.raises(
        ExtensionError, match=r"normxlogit\.methods\.normxlogit and tests both register 'logat' in methods"
    ):
        registry.register("logat", paper="a test")(subclass)


def test_media_whose_parts_are_called_alike_are_refused(installed, monkeypatch):
    media = extending.registered("media")
    first, second = (
        type("Series", (Medium,), {"unit_kind": "step", "removed_unit": ("step", removed), "__module__": package})
        for package, removed in (("first", "flattened"), ("second", "deleted"))
    )
    monkeypatch.setitem(media, "first", first)
    assert parts_of_media()["step"] == "flattened"
    assert kinds_of_media()["step"] is first
    monkeypatch.setitem(media, "second", second)
    with pytest.raises(ExtensionError, match="first and second both register 'step' in removed units"):
        parts_of_media()
    with pytest.raises(ExtensionError, match="first and second both register 'step' in kinds of units"):
        kinds_of_media()
