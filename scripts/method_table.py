"""Write the tables of methods on the docs' methods page and in the README from the registry.

Usage: python scripts/method_table.py
"""

from pathlib import Path
from typing import Literal, get_args, get_origin

from normxlogit import MethodInfo, list_methods
from normxlogit.methods.settings import Setting, format_value

ROOT = Path(__file__).parent.parent
PAGE, README = ROOT / "docs" / "methods" / "index.md", ROOT / "README.md"
BEGIN, END = "<!-- methods: begin -->", "<!-- methods: end -->"


def docs_table() -> str:
    """Return all that is registered about the methods as a Markdown table."""
    lines = ["| method | scores | source | needs | settings | signed | layers | cost |"]
    lines.append("|---|---|---|---|---|---|---|---|")
    for m in list_methods():
        page = PAGE.parent / f"{m.name}.md"
        name = f"[`{m.name}`]({page.name})" if page.exists() else f"`{m.name}`"
        needs = m.needs + (f"; extra `{m.extra}`" if m.extra else "")
        settings = "<br>".join(map(_described, m.settings.values()))
        lines.append(_row(name, m.summary, m.paper, needs, settings, *_marks(m), m.passes))
    return "\n".join(lines)


def readme_table() -> str:
    """Return the methods, where they come from and what they cost as a Markdown table."""
    rows = [
        _row(f"[`{m.name}`](docs/methods/{m.name}.md)", m.paper, *_marks(m, no=""), m.passes) for m in list_methods()
    ]
    return "\n".join([_row("name", "source", "signed", "single layers", "cost"), "|---|---|---|---|---|", *rows])


TABLES = {PAGE: docs_table, README: readme_table}


def written(path: Path) -> str:
    """Return a page with its table renewed.

    Raises:
        ValueError: If the page does not say where its table is.
    """
    before, begin, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{path} has no {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{TABLES[path]()}\n{END}{after}"


def _described(setting: Setting) -> str:
    """Return a setting as one types its default, and what it takes."""
    values = get_args(setting.kind) if get_origin(setting.kind) is Literal else ()
    allowed = ", ".join(f"`{format_value(value)}`" for value in values) or setting.allowed
    return f"`{setting.name}={format_value(setting.default)}` ({allowed})"


def _marks(m: MethodInfo, no: str = "no") -> list[str]:
    return ["yes" if flag else no for flag in (m.signed, m.per_layer)]


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    for path in TABLES:
        path.write_text(written(path), encoding="utf-8")
