"""What a wing or another package adds to the core: calls, tasks, methods, commands, results.

A wing is a folder of this package with an `extension.py` that holds an `EXTENSION`; another package names its own in
the entry-point group `normxlogit.extensions`. What is named there is imported when it is first used, so that neither
the start of the command line nor an explanation of a text pays for what it does not use, and a wing whose folder is
deleted takes along what it added. A name that two packages register is refused: which of them counts would be chance.
"""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from .errors import ExtensionError

GROUP = "normxlogit.extensions"
"""Entry-point group: each entry names an `Extension`, as in "your_package:EXTENSION"."""


@dataclass(frozen=True)
class ModelClasses:
    """The classes of models that a task has, and how they are loaded; none of transformers' by default.

    Classes are known by their names, so that a task is imported only for its own models.

    Attributes:
        mapping: transformers' mapping of the classes.
        auto_class: transformers' class that loads them.
        processor_class: transformers' class that loads what reads their inputs.
        peft_type: PEFT's name of the task, in the files of an adapter.
        plain: Whether a module that is not of transformers may have it.
        needs_encoder: Whether classes of the mapping without an encoder beside the decoder are for another task.
        decoders_among: Classes of other tasks: those of them without an encoder beside the decoder are for this one.
        claims: Whether a module that is not of transformers is known to be for this task.
        wrapper: How models without a head become task models, as "module:name"; "" if they do not: an object that
            `claims_files` of a folder or hub name, has `check_files` of a folder, and makes a `task_model` of a model,
            a pooling and what it made when the model was read last.
    """

    mapping: str = ""
    auto_class: str = "AutoModel"
    processor_class: str = "AutoTokenizer"
    peft_type: str = ""
    plain: bool = False
    needs_encoder: bool = False
    decoders_among: tuple["ModelClasses", ...] = ()
    claims: Callable[[Any], bool] = lambda module: False
    wrapper: str = ""

    def have(self, class_name: str, *, lacks_encoder: bool = False, by_ending: bool = False) -> bool:
        """Return whether a class of models is among them.

        Args:
            class_name: The name of the class.
            lacks_encoder: Whether the model is known to have no encoder beside its decoder.
            by_ending: Whether the ending of the name says it, and not transformers' mapping.
        """
        from .compat import classes_in  # imports torch, which takes seconds

        if lacks_encoder and self.needs_encoder:
            return False
        if lacks_encoder and any(other.have(class_name, by_ending=by_ending) for other in self.decoders_among):
            return True
        if by_ending:
            ending = self.auto_class.removeprefix("AutoModel")  # "" says nothing: every name ends with it
            return bool(ending) and class_name.endswith(ending)
        return bool(self.mapping) and class_name in classes_in(self.mapping)


@dataclass(frozen=True)
class AddedTask:
    """A task that an extension adds.

    Attributes:
        name: Its name, in transformers' terms.
        home: Its class, a `normxlogit.tasks.base.Task`, as "module:name"; it is imported for a model that has the task.
        models: Its classes of models.
    """

    name: str
    home: str
    models: ModelClasses

    @property
    def task_class(self) -> Any:
        """The class of the task."""
        return import_reference(self.home)


@dataclass(frozen=True)
class Extension:
    """What one wing or package adds; everything is named as "module:name", a module of a wing from its own folder on.

    Attributes:
        calls: Methods of the explainer by their names: functions whose first argument is the explainer.
        without: Calls by which `Explainer.without` measures, by the argument for which each is chosen, as
            {"second": "similarity"}: they take `method` and `verify`, and return a result.
        keywords: Keywords of the explainer's call that stand for an argument of an extension's call, as
            {"pairs": "pairs.budget"}: then `explainer(text, pairs=64)` is `explainer.pairs(text, budget=64)`.
        names: Public names of the package `normxlogit`; of wings alone.
        tasks: Tasks. Where a class of models has several, those of extensions come before the core's.
        pipelines: Readers of transformers pipelines that ask a model more than a text, by their tasks: functions of a
            pipeline and the labels that the caller gave, which return what makes the task from the model's own.
        part_readers: Readers of parts of messages that are not texts (`normxlogit.inputs.message_parts.PartReader`).
        media: Classes of what an input holds beside a text, by their kinds (`normxlogit.results.units.media.Medium`).
        methods: Modules whose import registers methods, see `normxlogit.methods.register`.
        commands: Functions or Typer apps of the command line by their words, as {"cite": ...} or
            {"evaluate cite": ...}.
        results: Classes of results (`normxlogit.results.base.Record`) by their kinds, for what is loaded from files.
        drawers: Functions of a result and `words`, whether single units are drawn as words (None: where these can be
            told), that return its blocks, by kinds of results; a kind without one is drawn as its base class.
        figures: Functions of a result and the arguments of its `plot` that return a figure, by kinds of results.
        exports: Functions of a result or a collection by name, for `export` of results.
    """

    calls: Mapping[str, str] = field(default_factory=dict)
    without: Mapping[str, str] = field(default_factory=dict)
    keywords: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    tasks: Sequence[AddedTask] = ()
    pipelines: Mapping[str, str] = field(default_factory=dict)
    part_readers: Sequence[str] = ()
    media: Mapping[str, str] = field(default_factory=dict)
    methods: Sequence[str] = ()
    commands: Mapping[str, str] = field(default_factory=dict)
    results: Mapping[str, str] = field(default_factory=dict)
    drawers: Mapping[str, str] = field(default_factory=dict)
    figures: Mapping[str, str] = field(default_factory=dict)
    exports: Mapping[str, str] = field(default_factory=dict)


def import_reference(reference: str) -> Any:
    """Import what "module:name" names, or "module"."""
    module, _, name = reference.partition(":")
    imported = import_module(module)
    return getattr(imported, name) if name else imported


def import_or_warn(reference: str) -> Any:
    """Import what "module:name" names; None with a warning if that fails: others' faults are not ours."""
    try:
        return import_reference(reference)
    except ExtensionError:  # two packages register one name: the user is told which to uninstall
        raise
    except Exception as error:
        warnings.warn(f"the extension {reference} could not be loaded: {error}", stacklevel=3)
        return None


def lazy_names(package: str, modules: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Return a `__getattr__` that imports a package's public names when first used: torch takes seconds.

    Args:
        package: The package.
        modules: The names by the modules in the package that have them.
    """
    module_of_name = {name: module for module, names in modules.items() for name in names}

    def imported(name: str) -> Any:
        if name not in module_of_name:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{module_of_name[name]}"), name)

    return imported


@cache
def wings() -> dict[str, Extension]:
    """Return the wings' extensions by their references, "module:EXTENSION", in the order of their folders."""
    folders = sorted(path.parent.name for path in Path(__file__).parent.glob("*/extension.py"))
    wing_references = [f"{__package__}.{folder}.extension:EXTENSION" for folder in folders]
    return {reference: import_reference(reference) for reference in wing_references}


@cache
def extensions() -> dict[str, Extension]:
    """Return the extensions by their references: this package's wings, then those of other packages."""
    imported = {entry.value: import_or_warn(entry.value) for entry in entry_points(group=GROUP)}
    # What failed is None, and an entry may name something else.
    others = {reference: found for reference, found in imported.items() if isinstance(found, Extension)}
    return {**wings(), **others}


def named_once(what: str, entries: Iterable[tuple[str, Any, str]], core: Iterable[str] = ()) -> dict[str, Any]:
    """Return what packages register, by its names.

    Args:
        what: What the names are of, for errors.
        entries: Names, each with what it stands for and the module, or "module:name", that registers it.
        core: Names of this package, which no other may take.

    Raises:
        ExtensionError: If a name is registered twice.
    """
    registry: dict[str, Any] = {}
    registered_by = dict.fromkeys(core, "normxlogit")  # a module, or "module:name", by name
    for name, value, module in entries:
        if name in registered_by:
            first, second = (reference.partition(":")[0] for reference in (registered_by[name], module))
            raise ExtensionError(f"{first} and {second} both register {name!r} in {what}: uninstall one of them")
        registry[name] = value
        registered_by[name] = module
    return registry


def named_in(some_extensions: Mapping[str, Extension], field: str, core: Iterable[str] = ()) -> dict[str, Any]:
    """Return what some extensions name in a field, by name, as `references` does.

    Args:
        some_extensions: The extensions by their references.
        field: A field of `Extension`.
        core: Names of this package in it, which no extension may take.

    Raises:
        ExtensionError: If two of them name the same.
    """
    entries = list[tuple[str, Any, str]]()
    for reference, extension in some_extensions.items():
        by_name = getattr(extension, field)
        if not isinstance(by_name, Mapping):  # a list, see `references`
            by_name = {getattr(value, "name", value): value for value in by_name}
        entries += [(name, value, reference) for name, value in by_name.items()]
    return named_once(field, entries, core)


@cache
def references(field: str, core: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Return what extensions name in a field, by name.

    Where the field is a mapping, its keys are the names. Where it is a list, the name of an entry is its attribute
    `name`; an entry without one is a reference, and is its own name.

    Args:
        field: A field of `Extension`.
        core: Names of this package in it, which no extension may take.

    Raises:
        ExtensionError: If two packages name the same.
    """
    return named_in(extensions(), field, core)


@cache
def import_registered(field: str, key: str) -> Any:
    """Import what an extension names in a field by a key."""
    return import_reference(references(field)[key])


@cache
def registered(field: str) -> dict[str, Any]:
    """Return all that extensions name in a field, by its keys; what fails is left out."""
    registry = {key: import_or_warn(reference) for key, reference in references(field).items()}
    return {key: value for key, value in registry.items() if value is not None}
