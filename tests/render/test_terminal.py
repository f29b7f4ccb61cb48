import io
import re
from dataclasses import replace

import pytest

from normxlogit.render.blocks import Column, Table, cell
from normxlogit.render.terminal import text_of_blocks, wants_color
from normxlogit.render.text import attribution_blocks
from normxlogit.results.collection import Attributions
from normxlogit.results.targets import Target
from tests.factories import BOTH, MOVIE, all_labels, make_attribution


def to_text(a, *, words=False, color=False):
    return text_of_blocks(attribution_blocks(a, words=words), color=color)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLORTERM", "truecolor")


def style_of(text: str, piece: str) -> str:
    """The codes in force where a piece is written."""
    found = re.search(rf"\x1b\[([0-9;]*)m{re.escape(piece)}\x1b\[0m", text)
    return found[1] if found else ""


def background(codes: str) -> list[int]:
    return [int(level) for level in re.findall(r"48;2;(\d+);(\d+);(\d+)", codes)[0]]


def test_plain_sentence_has_the_original_text_with_marks():
    lines = to_text(make_attribution()).splitlines()
    assert "[CLS] The movie is medi(++)ocre(+), maybe(+) even(+) bad(+++).(-) [SEP]" in lines
    marked = next(line for line in lines if line.startswith("[CLS]"))
    assert re.sub(r"\([+-]+\)", "", marked) == f"[CLS] {MOVIE} [SEP]"


def test_plain_table_has_numbers_and_signed_bars():
    rows = {row.split()[0]: row.split()[1:] for row in to_text(make_attribution()).splitlines() if row}
    assert rows["bad"] == ["+3.00", "+" * 13]
    assert rows["medi"] == ["+1.50", "+" * 7]
    assert rows['"."'] == ["-0.60", "---"]


def test_red_is_for_and_blue_against_and_strength_shows():
    text = to_text(make_attribution(), color=True)
    strong, weaker, against = (background(style_of(text, piece)) for piece in ("bad", "medi", "."))
    assert strong[0] > strong[2] + 100
    assert strong[0] - strong[2] > weaker[0] - weaker[2] > 0
    assert against[2] > against[0]
    assert style_of(text, "The") == ""
    assert style_of(text, "[CLS]") == "2"


def test_special_tokens_do_not_set_the_scale():
    assert to_text(make_attribution(special_score=0.0), color=True) == to_text(make_attribution(), color=True)


@pytest.mark.parametrize(("environment", "terminal", "colored"), [
    ({}, True, True), ({}, False, False), ({"NO_COLOR": "1"}, True, False), ({"NO_COLOR": ""}, True, True),
    ({"FORCE_COLOR": "1"}, False, True), ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, True, False),
    ({"TERM": "dumb"}, True, False), ({"TERM": "dumb", "FORCE_COLOR": "1"}, False, True),
])  # fmt: skip
def test_environment_decides_on_color(environment, terminal, colored, monkeypatch):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    stream = Terminal() if terminal else io.StringIO()
    assert wants_color(stream) == colored
    monkeypatch.setattr("sys.stdout", stream)
    assert ("\x1b[" in str(make_attribution())) == colored


def test_a_collection_prints_ten_and_says_how_many_more():
    many = Attributions([make_attribution()] * 200)
    shown = str(many)
    assert shown.count("prediction") == 10
    assert shown.endswith("and 190 more: slice them, or to_html(path) writes a page of all")
    assert "slice them" not in str(many[:10])


def test_a_name_with_a_line_break_stays_on_its_line():
    rows = to_text(replace(all_labels(), targets=(Target("label", "very\nbad", 0), BOTH[1]))).splitlines()
    assert "explained   very bad, positive" in rows
    assert any(row.startswith("very bad  [CLS] The movie") for row in rows)


def test_a_narrow_terminal_shows_every_column(monkeypatch):
    monkeypatch.setattr("sys.stdout", Terminal())
    monkeypatch.setenv("COLUMNS", "60")
    names = ["gorgeous", "+1.25", "of 30", "of 60", "of 90"]
    columns = [Column("what"), *(Column(f"a rather long heading {i}", numbers=True) for i in range(4))]
    text = text_of_blocks([Table(columns, [[cell(name) for name in names]])], color=False)
    assert max(map(len, text.splitlines())) <= 60
    assert all(name in text for name in names)


def test_the_legend_names_the_colour_of_a_faint_bar():
    a = make_attribution(pieces=("bad", "."), scores=(3.0, -0.1))
    assert "for negative" in to_text(a, color=True)
    assert "against negative" in to_text(a, color=True)
    assert "against negative" not in to_text(a)  # where no word has its mark
