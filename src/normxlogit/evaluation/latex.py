"""Tables of Markdown as tables of LaTeX."""

import re

from ..errors import optional_module

TABLE = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)
"""The lines of a table."""

COMMANDS_OF_MARKS = {
    r"\*\*(.+?)\*\*": r"\\textbf{\1}",
    "<u>(.+?)</u>": r"\\underline{\1}",
    "↑": r"$\\uparrow$",
    "↓": r"$\\downarrow$",
    "[<>]": r"$\g<0>$",  # in text LaTeX's own font has other characters in their places
}
"""LaTeX's commands for the marks that Markdown has in a cell, after LaTeX's own characters are escaped."""


def latex_tables(markdown: str) -> str:
    """Return the tables of a text with the rules of booktabs, one after the other.

    Args:
        markdown: The text, whose tables have their columns after the first aligned right.
    """
    return "\n".join(_latex_table(match.group()) for match in TABLE.finditer(markdown))


def _latex_table(lines: str) -> str:
    """Return the lines of a Markdown table as LaTeX."""
    cells_of_lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines.splitlines()]
    names, _, *rows = cells_of_lines  # the second line has the alignment
    pandas = optional_module("pandas", "a table of LaTeX needs pandas: pip install 'normxlogit[eval]'")
    table = pandas.DataFrame(rows, columns=names)
    latex: str = table.to_latex(index=False, escape=True, column_format="l" + "r" * (len(names) - 1))
    for mark, command in COMMANDS_OF_MARKS.items():
        latex = re.sub(mark, command, latex)
    return latex
