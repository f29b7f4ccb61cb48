"""Draw the rooms of the package and who imports whom, and write it to the docs' architecture page.

Usage: python scripts/architecture.py
"""

import ast
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE, PAGE = ROOT / "src" / "normxlogit", ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- architecture: begin -->", "<!-- architecture: end -->"

Graph = dict[str, set[str]]


def rooms(package: Path = PACKAGE) -> dict[str, str]:
    """Return the rooms, folders and the front door, each with the first line of its docstring."""
    inits = {path.parent.name: path for path in package.glob("*/__init__.py")} | {"explainer": package / "explainer.py"}
    docstrings = {name: ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) for name, path in inits.items()}
    return {name: (text or "").partition("\n")[0] for name, text in sorted(docstrings.items())}


def imports(package: Path = PACKAGE) -> Graph:
    """Return for each room the rooms that it imports; what only type checkers read does not count."""
    names = rooms(package)
    graph: Graph = {name: set() for name in names}
    for path in package.rglob("*.py"):
        inside = path.relative_to(package).with_suffix("").parts
        if inside[0] in names:
            graph[inside[0]] |= {other for other in _imported(path, inside) if other in names} - {inside[0]}
    return graph


def _imported(path: Path, inside: tuple[str, ...]) -> set[str]:
    """Return the first names, below the package, of what a file imports."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    unseen = {id(n) for block in ast.walk(tree) if _typing_only(block) for part in block.body for n in ast.walk(part)}
    first: set[str] = set()
    for node in ast.walk(tree):
        if id(node) in unseen:
            continue
        if isinstance(node, ast.ImportFrom):
            above = ("normxlogit", *inside)[: -node.level] if node.level else ()
            module = (*above, *(node.module or "").split(".")) if node.module else above
            first |= {whole[1] for a in node.names if len(whole := (*module, a.name)) > 1 and whole[0] == "normxlogit"}
        elif isinstance(node, ast.Import):
            whole_names = [alias.name.split(".") for alias in node.names]
            first |= {whole[1] for whole in whole_names if len(whole) > 1 and whole[0] == "normxlogit"}
    return first


def _typing_only(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def arrows(graph: Graph) -> Graph:
    """Leave out the imports that a way over another room shows too."""

    def reached(start: str, visited: set[str]) -> set[str]:
        for other in graph[start] - visited:
            visited.add(other)
            reached(other, visited)
        return visited

    return {
        room: {other for other in below if not any(other in reached(via, {room}) for via in below - {other})}
        for room, below in graph.items()
    }


def mermaid(graph: Graph) -> str:
    """Return the rooms as a Mermaid diagram, arrows pointing at what is imported."""
    # A result draws itself when it is asked to: the one import that goes up, and no part of the order of the rooms.
    drawn = "render" in graph.get("results", set())
    below = arrows(graph | {"results": graph["results"] - {"render"}})
    lines = [f"    {room} --> {other}" for room in sorted(below) for other in sorted(below[room])]
    lines += ["    results -. draws itself .-> render"] if drawn else []
    return "\n".join(["```mermaid", "flowchart TD", *lines, "```"])


def table(graph: Graph) -> str:
    """Return the rooms, what they are for and all that they import as a Markdown table."""
    lines = ["| room | what is in it | imports |", "|---|---|---|"]
    for room, about in rooms().items():
        place = "`explainer.py`" if room == "explainer" else f"`{room}/`"
        lines.append(f"| {place} | {about} | {', '.join(sorted(graph[room]))} |")
    return "\n".join(lines)


def diagram_and_table() -> str:
    """Return the diagram and the table."""
    graph = imports()
    return f"{mermaid(graph)}\n\n{table(graph)}"


def written(page: Path = PAGE) -> str:
    """Return the page with its diagram and table renewed.

    Raises:
        ValueError: If the page does not say where they are.
    """
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{page} has no {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{diagram_and_table()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(written(), encoding="utf-8")
