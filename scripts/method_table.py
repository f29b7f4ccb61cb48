"""Write what is registered about the methods: the tables on the docs' page, and the catalogues that the library reads.

Usage: python scripts/method_table.py
"""

import json
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Literal, get_args, get_origin

from normxlogit import Method, MethodInfo, list_methods
from normxlogit.methods.defaults import DEFAULTS
from normxlogit.methods.registry import CATALOGUES
from normxlogit.methods.settings import Setting
from normxlogit.results.storage.schema import setting_text

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "methods" / "index.md"
BEGIN, END = "<!-- {}: begin -->", "<!-- {}: end -->"


def catalogue(path: Path) -> str:
    """Return what the classes in a catalogue's folder are registered with as JSON; new methods stand last."""
    package = import_module(f"normxlogit.{path.parent.name}")
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        import_module(module.name)
    classes, rows = [Method], {}
    for cls in classes:
        classes += cls.__subclasses__()
        if "info" in vars(cls) and cls.__module__.startswith(package.__name__ + "."):
            rows[cls.info.name] = asdict(cls.info)
    saved_order = [row["name"] for row in json.loads(path.read_text(encoding="utf-8"))]
    order = sorted(rows, key=lambda name: saved_order.index(name) if name in saved_order else len(saved_order))
    return json.dumps([rows[name] for name in order], indent=1, ensure_ascii=False) + "\n"


def docs_table() -> str:
    """Return all that is registered about the methods as a Markdown table."""
    lines = ["| method | scores | source | needs | settings | signed | layers | cost |"]
    lines.append("|---|---|---|---|---|---|---|---|")
    links = dict(_headings())
    for m in list_methods():
        name = f"[`{m.name}`]({links[m.name]})"
        needs = m.needs + (f"; extra `{m.extra}`" if m.extra else "")
        settings = "<br>".join(map(_described, m.settings.values()))
        lines.append(_row(name, m.summary, m.paper, needs, settings, *_marks(m), m.passes))
    return "\n".join(lines)


def defaults_table() -> str:
    """Return what each entry point uses by default, and why, as a Markdown table."""
    rows = [
        _row(d.calls, ", then ".join(f"`{name}`" for name in d.methods), d.passes, f"[{d.why}](../{d.page})")
        for d in DEFAULTS.values()
    ]
    return "\n".join([_row("calls", "method", "passes", "why"), "|---|---|---|---|", *rows])


TABLES = {"methods": docs_table, "defaults": defaults_table}
"""By the name between the marks."""


def written(path: Path) -> str:
    """Return a page with its tables renewed.

    Raises:
        ValueError: If the page does not say where a table is.
    """
    page = path.read_text(encoding="utf-8")
    for name, table in TABLES.items():
        before, begin, rest = page.partition(BEGIN.format(name))
        _, end, after = rest.partition(END.format(name))
        if not (begin and end):
            raise ValueError(f"{path} has no {BEGIN.format(name)} and {END.format(name)}")
        page = f"{before}{begin}\n{table()}\n{end}{after}"
    return page


def _headings() -> Iterator[tuple[str, str]]:
    """Yield the headings of the pages of methods, each with its address: every method is one."""
    for page in sorted(PAGE.parent.glob("*.md")):
        for level, heading in re.findall(r"^(##?) (\S+)$", page.read_text(encoding="utf-8"), re.MULTILINE):
            yield heading, page.name if level == "#" else f"{page.name}#{heading}"


def _described(setting: Setting) -> str:
    """Return a setting as one types its default, and what it takes."""
    values = get_args(setting.kind) if get_origin(setting.kind) is Literal else ()
    allowed = ", ".join(f"`{setting_text(value)}`" for value in values) or setting.allowed
    return f"`{setting.name}={setting_text(setting.default)}` ({allowed})"


def _marks(m: MethodInfo) -> list[str]:
    return ["yes" if flag else "no" for flag in (m.signed, m.per_layer)]


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    for path in CATALOGUES:
        path.write_text(catalogue(path), encoding="utf-8")
    PAGE.write_text(written(PAGE), encoding="utf-8")
