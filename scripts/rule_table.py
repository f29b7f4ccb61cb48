"""Print the table of the frozen network's rules, which the site shows: python scripts/rule_table.py."""

from collections.abc import Iterable

from normxlogit.frozen import rules

WELL_KNOWN = (
    "Softmax", "Exp", "Rsqrt", "Reciprocal", "Gelu", "Silu", "Tanh", "Sigmoid", "Softplus", "Div", "Linear",
    "ScaledDotProductFlashAttention", "Mul", "Addmm", "Bmm",
)  # fmt: skip
"""What stands first in a row."""


def table() -> str:
    """Return the table in Markdown."""
    groups: dict[str, list[str]] = {}
    for name, rule in rules.RULES.items():
        if rule is not None and name not in rules.PASSED_INPUT and (name == "Div" or name not in rules.HELD_INPUT):
            groups.setdefault((rule.__doc__ or "").splitlines()[0].partition(" (")[0].rstrip("."), []).append(name)
    rows = [
        ("linear: Add, View, Embedding, Mean, ...", len(rules.LINEAR), "torch's own"),
        ("choices: Max, Where, Relu, ...", len(rules.CHOICES), "torch's own, to what was chosen"),
        ("weights of few bits: MatMul4Bit, HQQ, ...", len(rules.QUANTISED_PRODUCTS), "that of the weights it used"),
        *((_listed(names), len(names), rule) for rule, names in groups.items()),
        (_listed(set(rules.HELD_INPUT) - {"Div"}), len(rules.HELD_INPUT) - 1, "None to the kernel, weight or matrix"),
        (_listed(rules.PASSED_INPUT), len(rules.PASSED_INPUT), "That of the values alone: queries and keys are held"),
        (_listed(rules.FACTORS), len(rules.FACTORS), "None to the factor that is held, see below"),
    ]
    lines = "".join(f"| {names} | {count} | {rule} |\n" for names, count, rule in rows)
    last = "| any other, where a gradient arrives | | An error that names it |\n"
    return "| operations | how many | gradient |\n|---|---:|---|\n" + lines + last


def _listed(names: Iterable[str]) -> str:
    """Return some of the names, those that are well known first."""
    names = sorted(names, key=lambda name: (WELL_KNOWN.index(name) if name in WELL_KNOWN else len(WELL_KNOWN), name))
    return ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")


if __name__ == "__main__":
    print(table(), end="")
