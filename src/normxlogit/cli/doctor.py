"""The command that shows what is installed, what is missing for which ability, and whether an explanation works."""

import os
import platform
import traceback
from dataclasses import asdict, dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ..errors import reason_of
from ..results.storage.files import json_text
from .console import quiet, status, write

if TYPE_CHECKING:
    from .installation import Package
    from .self_test import SelfTest

ReportFormat = Literal["terminal", "json"]


@dataclass(frozen=True)
class Installation:
    """What is installed.

    Attributes:
        system: The versions of the library and of Python, the operating system and the device, each by its name.
        required: The packages without which nothing works.
        extras: The packages of each extra that adds an ability.
        import_errors: The packages that cannot be imported, each with the reason.
    """

    system: "dict[str, str]"
    required: "list[Package]"
    extras: "dict[str, list[Package]]"
    import_errors: dict[str, str]


@dataclass(frozen=True)
class Outcome:
    """What the self-test measured, or why it did not end.

    Attributes:
        measured: What it measured; None if it did not end.
        error: Why it did not end; empty if it did.
        details: The traceback of that error, if there is one.
    """

    measured: "SelfTest | None" = None
    error: str = ""
    details: str = ""

    @property
    def passed(self) -> bool:
        """Whether the self-test ended and passed."""
        return self.measured is not None and self.measured.passed


def doctor(
    output_format: Annotated[ReportFormat, typer.Option("--format", help="For people or for programs.")] = "terminal",
) -> None:
    """Show versions, what is missing for which ability, and a self-test; the exit code is 1 where that fails.

    The self-test explains a text with the model in the package, compares the sum of the scores with the model's logit,
    and saves and loads the result.

    Example: normxlogit doctor
    """
    from . import doctor_text

    installation = _inspect()
    if output_format == "terminal":  # before the self-test, which may end the process
        write(doctor_text.of_installation(installation))
    outcome = _outcome_of_self_test(installation.import_errors)
    if output_format == "terminal":
        write(doctor_text.of_self_test(outcome))
    else:
        write(json_text({**asdict(installation), "self_test": {**asdict(outcome), "passed": outcome.passed}}))
    if not outcome.passed:
        raise typer.Exit(1)


def _inspect() -> Installation:
    """Return what is installed."""
    from .._version import __version__
    from .installation import ABILITIES, FOUNDATIONS, packages_of, required_packages

    import_errors = {name: error for name in FOUNDATIONS if (error := _import_error(name))}
    system = {
        "normxlogit": __version__,
        "Python": platform.python_version(),
        "system": platform.platform(),
        "device": "not known" if import_errors else _device(),
    }
    extras = {extra: packages_of(extra) for extra in ABILITIES}
    return Installation(system, required_packages(), extras, import_errors)


def _import_error(name: str) -> str:
    """Return why the import of a package fails; an empty string if it does not."""
    try:
        import_module(name)
    except Exception as error:  # a missing library of the system is an OSError, a broken package may raise anything
        return f"{type(error).__name__}: {reason_of(error)}"
    return ""


def _device() -> str:
    """Return the device that models run on by default."""
    import torch

    from ..compat import accelerator

    device = accelerator()
    if device is None:
        return f"cpu ({os.cpu_count()} cores)"
    return f"{device.type} ({torch.cuda.get_device_name()})" if device.type == "cuda" else device.type


def _outcome_of_self_test(import_errors: dict[str, str]) -> Outcome:
    """Run the self-test if everything that it needs can be imported."""
    if import_errors:
        return Outcome(error=f"not run, as {', '.join(import_errors)} cannot be imported")
    try:
        with status("explaining a text"), quiet():
            from .self_test import run_self_test

            return Outcome(run_self_test())
    except Exception as error:  # whatever goes wrong is what the report is for
        return Outcome(error=f"{type(error).__name__}: {reason_of(error)}", details=traceback.format_exc())
