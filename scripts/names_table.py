"""The table of methods' names in other packages; the docs build it, and `python scripts/names_table.py` prints it."""

from normxlogit.methods.other_names import OTHER_NAMES


def table() -> str:
    """Return the names as a Markdown table: those that are taken first, then those that are refused."""
    lines = ["| there | here | what to know |", "|---|---|---|"]
    for entry in sorted(OTHER_NAMES, key=lambda entry: not entry.is_same):
        names = ", ".join(f"`{name}`" for name in entry.names)
        refused = "" if entry.is_same else "refused; the nearest: "
        lines.append(f"| {names} | {refused}`{entry.here}` | {entry.remark} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
