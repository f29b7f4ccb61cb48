"""What is decided of a setting that transformers or a neighbour takes, for tests against their own answers."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from transformers.pipelines.base import Pipeline

from normxlogit import NormXLogitError


@dataclass(frozen=True)
class Applied:
    """The setting changes the answer, and the explained answer is the changed one."""

    value: Any
    beside: Mapping[str, Any] = field(default_factory=dict)
    """Settings without which it changes nothing."""
    given: Any = None
    """The input; None for the usual one."""


@dataclass(frozen=True)
class Refused:
    """The setting is an error that names it."""

    value: Any
    beside: Mapping[str, Any] = field(default_factory=dict)
    named: str = ""
    """What the error says; by default the setting's name."""


@dataclass(frozen=True)
class Harmless:
    """The setting does not change the answer, for this reason."""

    reason: str
    value: Any = None
    """Of those that can be tried here."""
    beside: Mapping[str, Any] = field(default_factory=dict)


Decision = Applied | Refused | Harmless


def undecided(names: Iterable[str], decisions: Mapping[str, Any]) -> set[str]:
    """Return the settings of which nothing is decided: each needs a line in a table."""
    return set(names) - set(decisions)


def parameters_of(function: Callable[..., Any]) -> list[str]:
    """Return the names of a function's parameters."""
    kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return [p.name for p in inspect.signature(function).parameters.values() if p.kind not in kinds and p.name != "self"]


OF_EVERY: Mapping[str, Decision] = {
    "model": Harmless("it is the model that is explained"),
    **{
        name: Harmless("it reads the inputs, here as there")
        for name in ("tokenizer", "feature_extractor", "image_processor", "video_processor", "processor")
    },
    **{
        name: Harmless("it is for speed, or for the form of the answer")
        for name in (
            "task",
            "device",
            "binary_output",
            "batch_size",
            "num_workers",
            "args_parser",
            "framework",
            "torch_dtype",
        )
    },
    "modelcard": Harmless("it describes the model"),
    "decoder": Harmless("a language model beside it is refused, in a test of its own"),
}
"""What the constructor of every pipeline takes."""


@dataclass(frozen=True)
class Kind:
    """A kind of pipeline: how it is built, what is decided of its settings, and its answers in one form."""

    build: Callable[..., Any]
    decisions: Mapping[str, Decision]
    theirs: Callable[[Any, Any], Any]
    ours: Callable[[Any, Any], Any]
    given: Any
    more: Callable[..., Any] | None = None
    """A function whose parameters the pipeline passes on."""

    def names(self) -> list[str]:
        """Return the settings that the installed version takes."""
        passed_on = parameters_of(self.more) if self.more else []
        return [*parameters_of(self.build()._sanitize_parameters), *passed_on]


def of(kinds: Mapping[str, Kind], decided: type) -> list[tuple[str, str]]:
    """Return the settings, with their pipelines, of which this is decided and can be tried."""
    return [
        (task, name)
        for task, kind in kinds.items()
        for name, decision in kind.decisions.items()
        if isinstance(decision, decided) and decision.value is not None
    ]


def is_close(answer: Any, other: Any) -> bool:
    """Return whether two answers are the same, their probabilities within rounding."""
    if isinstance(answer, float):
        return answer == pytest.approx(other, abs=1e-5)
    if isinstance(answer, list | tuple):
        return len(answer) == len(other) and all(map(is_close, answer, other))
    return bool(answer == other)


def check_all_decided(kind: Kind) -> None:
    """Check that something is decided of every setting of a pipeline of the installed version."""
    assert not undecided(kind.names(), kind.decisions)
    of_class = parameters_of(type(kind.build()).__init__)
    assert not undecided([*parameters_of(Pipeline.__init__), *of_class], OF_EVERY)


def decision_of(kind: Kind, name: str) -> Any:
    """Return what is decided of a setting; a test of one that the installed version does not take is skipped."""
    if name not in kind.names():
        pytest.skip("not of this version of transformers")
    return kind.decisions[name]


def check_applied(kind: Kind, name: str) -> None:
    """Check that a setting changes the answer of a pipeline, and that the changed one is explained."""
    decision = decision_of(kind, name)
    given = kind.given if decision.given is None else decision.given
    pipeline = kind.build(**decision.beside, **{name: decision.value})
    answer = kind.theirs(pipeline, given)
    assert not is_close(answer, kind.theirs(kind.build(), given)), "it changes nothing here: the test says nothing"
    assert is_close(answer, kind.ours(pipeline, given))


def check_harmless(kind: Kind, name: str) -> None:
    """Check that a setting changes neither the answer nor what is explained."""
    decision = decision_of(kind, name)
    pipeline = kind.build(**decision.beside, **{name: decision.value})
    usual = kind.theirs(kind.build(), kind.given)
    assert is_close(usual, kind.theirs(pipeline, kind.given))
    assert is_close(usual, kind.ours(pipeline, kind.given))


def check_refused(kind: Kind, name: str) -> None:
    """Check that a setting is refused by its name, in a line."""
    decision = decision_of(kind, name)
    with pytest.raises(NormXLogitError, match=decision.named or f"{name}=") as refusal:
        kind.ours(kind.build(**decision.beside, **{name: decision.value}), kind.given)
    assert "\n" not in str(refusal.value)
