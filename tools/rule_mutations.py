"""Make every rule of the frozen network wrong in turn, and print who notices: python -m tools.rule_mutations.

Each rule is removed (torch's own gradient stands in its place), doubled, and, where one of two inputs is held, made to
hold the other. Noticed is a wrong rule where a small function of the operation no longer adds up, has another slope, or
is refused. The same is run as tests/frozen/test_rule_mutations.py.
"""

import sys

from tests.frozen.mutations import mutations, noticed

WAYS = ("removed", "doubled", "swapped")


def main() -> int:
    """Print a row for each operation; return 1 if a wrong rule goes unnoticed."""
    found: dict[str, dict[str, str]] = {}
    for name, how in mutations():
        found.setdefault(name, {})[how] = noticed(name, how) or "UNNOTICED"
    print("| operation | " + " | ".join(WAYS) + " |\n|---|" + "---|" * len(WAYS))
    for name, outcomes in found.items():
        print(f"| {name} | " + " | ".join(outcomes.get(how, "") for how in WAYS) + " |")
    return int(any("UNNOTICED" in outcomes.values() for outcomes in found.values()))


if __name__ == "__main__":
    sys.exit(main())
