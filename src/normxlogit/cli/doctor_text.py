"""The report of `normxlogit doctor` as lines of a terminal."""

from textwrap import fill
from typing import TYPE_CHECKING

from .console import lines_of

if TYPE_CHECKING:
    from rich.table import Table

    from .doctor import Installation, Outcome

NARROWEST = 80
"""The width in which no requirement or command is cut, as people copy them."""


def of_installation(installation: "Installation") -> str:
    """Return what is installed, and what to install for what is missing."""
    heading = "".join(f"{name} {value}\n" for name, value in installation.system.items())
    return heading + _required_packages(installation) + _abilities(installation) + "\n"


def of_self_test(outcome: "Outcome") -> str:
    """Return what the self-test explained and its two comparisons, or why it did not end."""
    test = outcome.measured
    if test is None:
        return f"self-test: {outcome.error}\n{outcome.details}"
    words = " ".join(f"{word} {score:.3f}" for word, score in test.words)
    lines = [
        f"self-test: {test.text!r} is {test.label} ({test.probability:.4f})",
        f"  {test.method}, on {test.device} in {test.dtype}",
        fill(words, 78, initial_indent="  ", subsequent_indent="  "),
        f"  scores {test.scores:.7f} + sink {test.sink:.7f} + bias {test.bias:.7f} = {test.total:.7f}",
        f"  logit of the model {test.logit:.7f}: differs by {abs(test.total - test.logit):.1e}, "
        f"at most {test.tolerance:.1e} is rounding",
        f"  saved and loaded: {'the same result' if test.round_trip else 'ANOTHER RESULT'}",
        f"  {'passed' if test.passed else 'FAILED'} in {test.seconds:.1f} s",
    ]
    return "\n".join(lines) + "\n"


def _required_packages(installation: "Installation") -> str:
    """Return the table of packages without which nothing works, and why some of them cannot be imported."""
    from .installation import install_command

    table = _table("package", "installed", "required")
    for package in installation.required:
        table.add_row(package.name, package.installed or "no", package.specifier)
    commands = "".join(f"{install_command(package)}\n" for package in installation.required if not package.fits)
    errors = "".join(f"{name} cannot be imported: {error}\n" for name, error in installation.import_errors.items())
    return lines_of(table, narrowest=NARROWEST) + commands + errors


def _abilities(installation: "Installation") -> str:
    """Return the table of abilities, with the packages that are missing for each."""
    from .installation import ABILITIES

    if not any(installation.extras.values()):  # the library has no metadata, see `packages_of`
        return "normxlogit is not installed here: which versions and packages it needs is not known\n"
    table = _table("for", "missing", "")
    for extra, packages in installation.extras.items():
        missing = [f"{package.name}{package.specifier}" for package in packages if not package.fits]
        command = f"pip install 'normxlogit[{extra}]'" if missing else ""
        table.add_row(ABILITIES[extra], "\n".join(missing) or "nothing", command)
    return lines_of(table, narrowest=NARROWEST)


def _table(*headings: str) -> "Table":
    """Return an empty table whose first column may be wrapped; the others have what is copied, such as commands."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    first_heading, *further_headings = headings
    table.add_column(first_heading, overflow="fold")
    for heading in further_headings:
        table.add_column(heading, overflow="fold", no_wrap=True)
    return table
