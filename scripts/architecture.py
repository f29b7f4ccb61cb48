"""Draw the rooms of the package and who imports whom, and write it to the docs' architecture page.

Usage: python scripts/architecture.py
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import networkx

ROOT = Path(__file__).parent.parent
PACKAGE, PAGE = ROOT / "src" / "normxlogit", ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- architecture: begin -->", "<!-- architecture: end -->"

Graph = dict[str, set[str]]


def rooms(package: Path = PACKAGE) -> dict[str, str]:
    """Return the rooms, folders and the front door, each with the first line of its docstring."""
    inits = {path.parent.name: path for path in package.glob("*/__init__.py")} | {"explainer": package / "explainer.py"}
    docstrings = {name: ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) for name, path in inits.items()}
    return {name: (text or "").partition("\n")[0] for name, text in sorted(docstrings.items())}


def modules(package: Path = PACKAGE) -> dict[str, Path]:
    """Return the modules by their names, with their files."""
    return {".".join(_name_of(path, package)): path for path in package.rglob("*.py")}


def module_imports(package: Path = PACKAGE) -> Graph:
    """Return for each module the modules of the package that it imports or refers to by name.

    Imports inside functions count, and strings such as "normxlogit.plots.plots:heat_map". What only type checkers read
    does not count, nor what an extension.py names: that is how the core finds what it does not know.
    """
    files = modules(package)
    graph: Graph = {}
    for name, path in files.items():
        references = {_module_of(reference, files) for reference in _referred(path, package)}
        graph[name] = references - {name, ""}
    return graph


def imports(package: Path = PACKAGE) -> Graph:
    """Return for each room the rooms that it imports, as `module_imports`."""
    names = rooms(package)
    graph: Graph = {name: set() for name in names}
    for module, imported in module_imports(package).items():
        room = room_of(module)
        if room in names:
            graph[room] |= {room_of(other) for other in imported} & names.keys() - {room}
    return graph


def room_of(module: str) -> str:
    """Return the room of a module: its folder, or its own name."""
    return module.split(".")[1] if "." in module else module


def circles(graph: Graph) -> list[list[str]]:
    """Return the circles of a graph, the largest first: modules each of which leads to all others of its circle."""
    components = networkx.strongly_connected_components(networkx.DiGraph(graph))
    by_name = sorted(sorted(component) for component in components if len(component) > 1)
    return sorted(by_name, key=len, reverse=True)


def _name_of(path: Path, package: Path) -> tuple[str, ...]:
    """Return the parts of a module's name."""
    name = ("normxlogit", *path.relative_to(package).with_suffix("").parts)
    return name[:-1] if path.name == "__init__.py" else name


def _module_of(reference: str, files: dict[str, Path]) -> str:
    """Return the module that holds what a dotted name refers to; "" for none beside the package itself."""
    while reference and reference not in files:
        reference = reference.rpartition(".")[0]
    return reference if "." in reference else ""


def _referred(path: Path, package: Path) -> Iterator[str]:
    """Yield the dotted names, with "normxlogit", that a file imports or that its strings hold."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typing_blocks = [node for node in ast.walk(tree) if _typing_only(node)]
    for_type_checkers = {id(node) for block in typing_blocks for part in block.body for node in ast.walk(part)}
    is_package = path.name == "__init__.py"  # whose name is that of its folder: "." is itself, not the folder above
    for node in ast.walk(tree):
        if id(node) in for_type_checkers:
            continue
        if isinstance(node, ast.ImportFrom):
            name = _name_of(path, package)
            parent = name[: len(name) - node.level + is_package] if node.level else ()  # of "..": two levels
            module = (*parent, *filter(None, [node.module]))
            yield from (".".join((*module, alias.name)) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Constant) and path.name != "extension.py":
            text = str(node.value)
            yield text.partition(":")[0] if text.startswith("normxlogit.") else ""


def _typing_only(node: ast.AST) -> bool:
    """Return whether a node is `if TYPE_CHECKING:`."""
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def mermaid(graph: Graph) -> str:
    """Return the rooms as a Mermaid diagram, arrows pointing at what is imported; none that follows from others."""
    reduced = networkx.transitive_reduction(networkx.DiGraph(graph))
    lines = [f"    {room} --> {other}" for room, other in sorted(reduced.edges)]
    return "\n".join(["```mermaid", "flowchart TD", *lines, "```"])


def table() -> str:
    """Return the rooms and what they are for as a Markdown table."""
    lines = ["| room | what is in it |", "|---|---|"]
    for room, description in rooms().items():
        place = "`explainer.py`" if room == "explainer" else f"`{room}/`"
        lines.append(f"| {place} | {description} |")
    return "\n".join(lines)


def diagram_and_table() -> str:
    """Return the diagram and the table."""
    return f"{mermaid(imports())}\n\n{table()}"


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
