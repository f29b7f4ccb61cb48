import re
import shlex
from pathlib import Path

import typer

import paper.cli
from paper.record.marks import blocks_of
from tests.test_docs import script

PAGE = Path(__file__).parents[2] / "docs" / "reproduction.md"


def test_the_page_shows_the_list():
    page = script("experiment_table")
    assert page.written() == PAGE.read_text(encoding="utf-8"), "run: python scripts/experiment_table.py"


def test_every_row_has_a_command_that_the_program_takes():
    tables = [block.cells for block in blocks_of(PAGE) if block.shape == "table" and "command" in block.cells[0]]
    ((head, *rows),) = tables
    for row in rows:
        (code,) = re.findall(r"^`(python -m paper [^`]+)`$", row[head.index("command")])
        command, rest = typer.main.get_command(paper.cli.app), shlex.split(code)[3:]
        while hasattr(command, "commands"):
            command, rest = command.commands[rest[0]], rest[1:]
        command.make_context(code, rest)
