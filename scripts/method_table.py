"""Write the table of methods on the docs' methods page from the registry: python scripts/method_table.py."""

from pathlib import Path

from normxlogit import list_methods

PAGE = Path(__file__).parent.parent / "docs" / "methods" / "index.md"
BEGIN, END = "<!-- methods: begin -->", "<!-- methods: end -->"


def table() -> str:
    """Return the registered methods as a Markdown table."""
    pages = sorted((p.stem for p in PAGE.parent.glob("*.md")), key=len, reverse=True)
    lines = ["| method | scores | source | needs | layers | signed | cost |", "|---|---|---|---|---|---|---|"]
    for m in list_methods():
        page = next((p for p in pages if m.name == p or m.name.startswith(p + "-")), None)
        name = f"[`{m.name}`]({page}.md)" if page else f"`{m.name}`"
        needs = m.needs + (f"; extra `{m.extra}`" if m.extra else "")
        marks = ["yes" if flag else "no" for flag in (m.per_layer, m.signed)]
        lines.append("| " + " | ".join([name, m.summary, m.paper, needs, *marks, m.passes]) + " |")
    return "\n".join(lines)


def written(page: str) -> str:
    """Return the page with its table renewed."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
