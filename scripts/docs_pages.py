"""MkDocs hook: build the page of the command line, and tables that are not committed."""

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

import cli_page  # noqa: E402
import names_table  # noqa: E402
import proof_table  # noqa: E402
import rule_table  # noqa: E402

from tools.survey import page as architectures  # noqa: E402


def on_files(files: Files, config: Any) -> None:
    """Add the page of the command line."""
    files.append(File.generated(config, "cli.md", content=cli_page.written()))


BUILT = "<!-- built: python scripts/{}.py -->"
"""Stands on a page in the place of a script's table."""
SOURCE = re.compile(r"<!-- built: (examples/\S+) -->")
"""The same of a file's code."""


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Add every class's row to the page of the architectures, and tables and code where a page names their file."""
    if page.file.src_uri == "architectures.md":
        return f"{markdown}\n{architectures.tables()}"
    for script in (names_table, proof_table, rule_table):
        markdown = markdown.replace(BUILT.format(script.__name__), script.table())
    return SOURCE.sub(lambda mark: f"```python\n{(ROOT / mark[1]).read_text(encoding='utf-8')}```", markdown)
