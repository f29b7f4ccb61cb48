"""Tables of Markdown as tables of LaTeX."""

import re

from ..errors import optional_module

TABLE = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)
"""The lines of a table."""

MARKS = {
    r"\*\*(.+?)\*\*": r"\\textbf{\1}",
    "<u>(.+?)</u>": r"\\underline{\1}",
    "↑": r"$\\uparrow$",
    "↓": r"$\\downarrow$",
    "[<>]": r"$\g<0>$",  # in text LaTeX's own font has other characters in their places
}
"""What Markdown has in a cell after LaTeX's own characters are escaped, and how LaTeX writes it."""


def latex_tables(markdown: str) -> str:
    """Return the tables of a text with the rules of booktabs, one after the other.

    Args:
        markdown: The text, whose tables have their columns after the first aligned right.
    """
    return "\n".join(_latex_table(match.group()) for match in TABLE.finditer(markdown))


def _latex_table(lines: str) -> str:
    """Return a table as LaTeX."""
    names, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines.splitlines()]
    pandas = optional_module("pandas", "a table of LaTeX needs pandas: pip install 'normxlogit[eval]'")
    table = pandas.DataFrame(rows, columns=names)
    latex: str = table.to_latex(index=False, escape=True, column_format="l" + "r" * (len(names) - 1))
    for mark, command in MARKS.items():
        latex = re.sub(mark, command, latex)
    return latex
