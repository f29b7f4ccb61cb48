"""What is installed of the packages that the library requires, from its own metadata; torch is not imported."""

from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version

from packaging.requirements import Requirement

ABILITIES = {
    "adapters": "adapters of PEFT",
    "app": "the app, a page in the browser",
    "documents": "documents in HTML and PDF",
    "eval": "evaluations, figures, methods of Captum",
    "gguf": "models in GGUF files",
    "paper": "the paper's experiments",
    "ray": "tables of texts on Ray",
    "scale": "tables of texts",
    "sentencepiece": "tokenizers in SentencePiece files",
    "speech": "sounds",
    "vision": "pictures",
}
"""The extras that add an ability, and what it is; their packages are those of the metadata."""

FOUNDATIONS = ("numpy", "torch", "tokenizers", "safetensors", "transformers")
"""Packages whose import fails where they do not fit the machine or one another, those first that others import."""


@dataclass(frozen=True)
class Package:
    """A package that the library requires, or one of its extras.

    Attributes:
        name: Its name on a package index.
        specifier: The versions that are required, such as ">=2.5"; empty for any.
        installed: The version that is installed, None if none is.
        fits: Whether that version is one of those required.
    """

    name: str
    specifier: str
    installed: str | None
    fits: bool


def required_packages() -> list[Package]:
    """Return the packages without which nothing works.

    Where the library is on the path without being installed it has no metadata: these are `FOUNDATIONS` in any version.
    """
    requirements = _requirements() or [Requirement(name) for name in FOUNDATIONS]
    return [_package(requirement) for requirement in requirements if _applies(requirement)]


def packages_of(extra: str) -> list[Package]:
    """Return the packages that an extra adds; none where the library has no metadata."""
    return [
        _package(requirement)
        for requirement in _requirements()
        if _applies(requirement, extra) and not _applies(requirement)  # one that applies without it is required
    ]


def install_command(package: Package) -> str:
    """Return the command that installs a required package in a version that fits."""
    return f"pip install '{package.name}{package.specifier}'"


def _requirements() -> list[Requirement]:
    """Return all requirements of the installed library, those of extras among them; none if it is not installed."""
    try:
        return [Requirement(line) for line in requires("normxlogit") or ()]
    except PackageNotFoundError:
        return []


def _applies(requirement: Requirement, extra: str = "") -> bool:
    """Return whether a requirement is one of an extra, or of none, on this machine, as its marker says."""
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def _package(requirement: Requirement) -> Package:
    """Return a required package with its installed version, None if it is missing, and whether that fits."""
    specifier = str(requirement.specifier)
    try:
        installed = version(requirement.name)
    except PackageNotFoundError:
        return Package(requirement.name, specifier, None, fits=False)
    fits = requirement.specifier.contains(installed, prereleases=True)  # a pre-release that is installed may fit
    return Package(requirement.name, specifier, installed, fits)
