"""What holds for all of the code: values that cannot be changed, and arguments that can be given by name."""

import dataclasses
import importlib
import inspect
import json
import pkgutil
from pathlib import Path

import normxlogit

ROOT = Path(__file__).parent.parent

CHANGED_WHILE_MADE = {
    "corpus.folder.Manifest",
    "methods.decomposition.layer_calls.LayerCall",
    "tasks.seq2seq.EncoderOutput",
    "frozen.conservation.Constants",
    "frozen.readout.GivenState",
    "frozen.readout.Readout",
    "copies.run.Pass",
    "copies.trace.Call",
}
"""Records that are filled in step by step; no caller is handed one."""


GENERATED = {"__new__", "_make", "_replace", "__init_subclass__"}
"""Methods that named tuples and the like are given."""


def members():
    """Yield every class and function of the package with its name."""
    for module in pkgutil.walk_packages(normxlogit.__path__, "normxlogit."):
        if module.name.endswith("__main__"):
            continue
        for name, member in vars(importlib.import_module(module.name)).items():
            if getattr(member, "__module__", None) == module.name:
                yield f"{module.name}.{name}".removeprefix("normxlogit."), member


def test_values_cannot_be_changed():
    classes = {name: member for name, member in members() if dataclasses.is_dataclass(member)}
    assert len(classes) > 60, "the test sees the package"
    assert {name for name, kind in classes.items() if not kind.__dataclass_params__.frozen} == CHANGED_WHILE_MADE


def test_every_argument_has_a_name():
    functions = {name: member for name, member in members() if inspect.isfunction(member)}
    for name, kind in ((name, member) for name, member in members() if inspect.isclass(member)):
        own = ((key, getattr(value, "__func__", value)) for key, value in vars(kind).items())
        made = {f"{name}.{key}": value for key, value in own if inspect.isfunction(value) and key not in GENERATED}
        functions |= {key: value for key, value in made.items() if value.__module__.startswith("normxlogit")}
    assert len(functions) > 1000, "the test sees the package"
    for name, function in functions.items():
        kinds = {parameter.kind for parameter in inspect.signature(function).parameters.values()}
        assert inspect.Parameter.POSITIONAL_ONLY not in kinds, name


def test_the_listed_mutations_are_of_the_code_as_it_is():
    """A change that no longer fits is never tried, and its test never judged."""
    listed = json.loads((ROOT / "scripts" / "listed_mutations.json").read_text(encoding="utf-8"))
    assert listed
    for one in listed:
        code = (ROOT / one["path"]).read_text(encoding="utf-8")
        assert code.count(one["old"]) == 1, f"{one['path']}: {one['breaks']}"
        assert all((ROOT / path).exists() for path in one["tests"].split()), one["tests"]
