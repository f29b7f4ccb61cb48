"""What a wing or another package adds to the core: calls, tasks, methods, commands, results.

A wing is a folder of this package with an `extension.py` that holds an `EXTENSION`; another package names its own in
the entry-point group `normxlogit.extensions`. What is named there is imported when it is first used, so that neither
the start of the command line nor an explanation of a text pays for what it does not use, and a wing whose folder is
deleted takes along what it added.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

GROUP = "normxlogit.extensions"
"""Entry-point group: each entry names an `Extension`, as in "your_package:EXTENSION"."""


@dataclass(frozen=True)
class Extension:
    """What one wing or package adds; everything is named as "module:name", a module of a wing from its own folder on.

    Attributes:
        calls: Methods of the explainer by their names: functions whose first argument is the explainer.
        names: Public names of the package `normxlogit`; of wings alone.
        tasks: Classes of tasks (`normxlogit.tasks.base.Task`). Where a class of models has several, those of extensions
            come before the core's.
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
    names: Mapping[str, str] = field(default_factory=dict)
    tasks: Sequence[str] = ()
    pipelines: Mapping[str, str] = field(default_factory=dict)
    part_readers: Sequence[str] = ()
    media: Mapping[str, str] = field(default_factory=dict)
    methods: Sequence[str] = ()
    commands: Mapping[str, str] = field(default_factory=dict)
    results: Mapping[str, str] = field(default_factory=dict)
    drawers: Mapping[str, str] = field(default_factory=dict)
    figures: Mapping[str, str] = field(default_factory=dict)
    exports: Mapping[str, str] = field(default_factory=dict)


def named(reference: str) -> Any:
    """Import what "module:name" names, or "module"."""
    module, _, name = reference.partition(":")
    imported = import_module(module)
    return getattr(imported, name) if name else imported


def named_or_none(reference: str) -> Any:
    """Import what "module:name" names; None with a warning if that fails: others' faults are not ours."""
    try:
        return named(reference)
    except Exception as error:
        warnings.warn(f"the extension {reference} could not be loaded: {error}", stacklevel=3)
        return None


def lazy_names(package: str, modules: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Return a `__getattr__` that imports a package's public names when first used: torch takes seconds."""
    homes = {name: module for module, names in modules.items() for name in names}

    def imported(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    return imported


@cache
def wings() -> tuple[Extension, ...]:
    """Return what the wings of this package add, by the names of their folders."""
    folders = sorted(path.parent.name for path in Path(__file__).parent.glob("*/extension.py"))
    return tuple(named(f"{__package__}.{folder}.extension:EXTENSION") for folder in folders)


@cache
def extensions() -> tuple[Extension, ...]:
    """Return the extensions: this package's wings, then those of other packages."""
    others = map(named_or_none, [entry.value for entry in entry_points(group=GROUP)])
    return (*wings(), *(extension for extension in others if isinstance(extension, Extension)))


@cache
def references(field: str) -> dict[str, str]:
    """Return what extensions name in a field, by its keys; of a list the references are the keys."""
    fields = [getattr(extension, field) for extension in extensions()]
    mappings = (named if isinstance(named, Mapping) else dict(zip(named, named, strict=True)) for named in fields)
    return {key: reference for mapping in mappings for key, reference in mapping.items()}


@cache
def named_for(field: str, key: str) -> Any:
    """Import what an extension names in a field by a key."""
    return named(references(field)[key])


@cache
def registered(field: str) -> dict[str, Any]:
    """Return all that extensions name in a field, by its keys; what fails is left out."""
    registry = {key: named_or_none(reference) for key, reference in references(field).items()}
    return {key: value for key, value in registry.items() if value is not None}
