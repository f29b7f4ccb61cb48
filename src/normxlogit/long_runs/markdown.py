"""Markdown on a terminal."""

from typing import Any

from rich import markdown


class WholeTable(markdown.TableElement):
    """A table whose long cells, such as a method with its settings, go on in the next line instead of being cut."""

    def __rich_console__(self, console: Any, options: Any) -> Any:
        """Yield the tables that rich makes of it, whose cells go on in the next line."""
        for table in super().__rich_console__(console, options):
            for column in table.columns:  # type: ignore[union-attr]
                column.overflow = "fold"
            yield table


class Markdown(markdown.Markdown):
    """A document of Markdown, with tables that show all of every cell."""

    elements = {**markdown.Markdown.elements, "table_open": WholeTable}  # noqa: RUF012
