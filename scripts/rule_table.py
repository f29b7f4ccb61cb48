"""Print the table of the frozen network's rules, which the site shows: python scripts/rule_table.py."""

from normxlogit.frozen.rules import TABLE


def table() -> str:
    """Return the table in Markdown."""
    lines = ["| operations | how many | what flows back | source |\n|---|---:|---|---|\n"]
    for row in TABLE:
        operations = row.operations.split()
        names = ", ".join(operations[:4]) + (", ..." if len(operations) > 4 else "")
        lines.append(f"| {names} | {len(operations)} | {row.rule} | {row.source} |\n")
    return "".join(lines) + "| any other, where a gradient arrives | | an error that names it | |\n"


if __name__ == "__main__":
    print(table(), end="")
