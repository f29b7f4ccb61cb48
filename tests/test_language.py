"""Words and turns that have a standard term, and the term to use instead, in the docs and in the code."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

TERMS = {
    r"not to be had": "not available; could not be downloaded",
    r"\b(its|their|of that) kin\b": "similar models",
    r"\bless (the|its|their) (mean|contrast|average)\b": "minus",
    r"\bwritten tokens?\b": "generated tokens",
    r"\b(is|are|was|were) asked (again|once|for each|about)\b": "is run",
    r"\bsays of\b": "predicts for; reports of",
    r"(?<!there )\bis no (?!longer\b|more\b|better\b)[a-z]+": "is not a",
    r"\b(the|a) (model|head|layer) (said|says)\b": "predicts",
    r"\b(mends?|mended)\b": "fixes",
    r"\b(the|on the) way back\b": "backward pass; gradient checkpointing",
    r"\b(go|goes|going|gone|went) back (through|from|with|twice|over)\b": "backpropagate",
    r"\bthe house\b": "the architecture",
    r"\blets? .{0,40}\brest\b": "skips",
    r"\bwhat (stands|stood) (where|between|behind|before)\b": "name the module",
    r"\ba way from\b": "a path from the baseline; an interpolation",
    r"\breaches nobody\b": "does not leak",
    r"\bwhether it is whole\b": "validate",
}
"""Pattern to what to write instead."""


PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *(path for room in ("src", "paper", "benchmarks", "scripts") for path in sorted((ROOT / room).rglob("*.py"))),
]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_standard_terms_are_used(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    matches = [
        f"{number}: {match.group(0)!r} -> {term}"
        for number, line in enumerate(lines, 1)
        for pattern, term in TERMS.items()
        if (match := re.search(pattern, line, re.IGNORECASE))
    ]
    assert not matches, "\n".join([str(path.relative_to(ROOT)), *matches])


EMPTY_NAMES = {
    *("asked", "beside", "found", "given", "gone", "known", "own", "said", "seen", "there", "told", "wanted"),
}
"""Names that do not say what the variable holds: `matches`, `logits`, `row_indices`, `caller_model` do."""

EXCEPTIONS = {
    ("src/normxlogit/parts/signal_entry.py", "given"): "as above",
}


@pytest.mark.parametrize(
    "path", sorted((ROOT / "src").rglob("*.py")), ids=lambda path: path.relative_to(ROOT).as_posix()
)
def test_variables_are_named_by_their_content(path):
    where = path.relative_to(ROOT).as_posix()
    names = {
        (node.lineno, name)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (name := _bound(node)) in EMPTY_NAMES and (where, name) not in EXCEPTIONS
    }
    assert not names, f"{where}: {sorted(names)}"


def _bound(node):
    """Return the name that an assignment or a parameter binds."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return node.id
    return node.arg if isinstance(node, ast.arg) else None
