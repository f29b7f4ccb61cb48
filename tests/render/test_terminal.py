import io
import re
import time
from dataclasses import replace

import numpy as np
import pytest

from normxlogit.cli import console
from normxlogit.render.blocks import Column, Table, cell
from normxlogit.render.builders.generation import generation_blocks
from normxlogit.render.builders.text import attribution_blocks, comparison_blocks
from normxlogit.render.charts import number
from normxlogit.render.describe import model_text
from normxlogit.render.layout import layout
from normxlogit.render.terminal import text_of_blocks, text_of_markdown, wants_color
from normxlogit.results.collection import Attributions
from tests.commands import run_python
from tests.factories import MOVIE, make_attribution, make_generation


def to_text(a, *, words=False, color=False):
    """Draw tokens unless a test asks for words."""
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


def test_a_name_with_a_line_break_does_not_look_like_another_row():
    rows = [[cell("[1] a.txt\n[2] forged.txt"), cell("one\r\n\ntwo")], [cell("[3] b.txt"), cell("three")]]
    text = text_of_blocks([Table([Column("source"), Column("text")], rows)], color=False)
    assert [" ".join(line.split()) for line in text.splitlines()] == [
        "source text", "[1] a.txt [2] forged.txt one two", "[3] b.txt three",
    ]  # fmt: skip


def style_of(text: str, piece: str) -> str:
    """The codes in force where a piece is written."""
    found = re.search(rf"\x1b\[([0-9;]*)m{re.escape(piece)}\x1b\[0m", text)
    return found[1] if found else ""


def background(codes: str) -> tuple[int, ...]:
    found = re.search(r"48;2;(\d+);(\d+);(\d+)", codes)
    return tuple(map(int, found.groups())) if found else ()


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


@pytest.mark.parametrize(
    ("environment", "terminal", "colored"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": ""}, True, True),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"FORCE_COLOR": "0"}, True, False),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, True, False),
        ({"TERM": "dumb"}, True, False),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, False, True),
    ],
)
def test_environment_decides_on_color(environment, terminal, colored, monkeypatch):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    stream = Terminal() if terminal else io.StringIO()
    assert wants_color(stream) == colored
    monkeypatch.setattr("sys.stdout", stream)
    assert ("\x1b[" in str(make_attribution())) == colored


def test_tokens_that_share_a_character_are_one_piece():
    a = make_attribution(("x", "🙂", "y", "z"), (0.5, 1.0, 1.0, 0.0), text="x🙂yz", special=False)
    shared = replace(a, units=replace(a.units, spans=((0, 1), (1, 2), (1, 2), (2, 4))))
    assert "x(+)🙂(+++)yz" in to_text(shared)
    assert layout(shared, words=False).tokens == [(0,), (1, 2), (3,)]


def test_long_texts_are_not_cut_in_files():
    count = 5000
    a = make_attribution(["word"] * count, np.linspace(-1, 1, count), text=" ".join(["word"] * count))
    started = time.perf_counter()
    text = to_text(a)
    assert time.perf_counter() - started < 20
    assert re.sub(r"\([+-]+\)", "", text).count("word") == count + 8
    assert f"The 8 strongest of {count} tokens" in text


@pytest.mark.parametrize(
    ("score", "scale", "text"),
    [
        (3.0, 3.2, "+3.00"),
        (-0.012, 0.05, "-0.0120"),
        (512.3, 900, "+512"),
        (1e-9, 1e-9, "+1.00e-09"),
        (-0.001, 300, "0"),
        (0.0, 0.0, "0.00"),
        (2e6, 2e6, "+2.00e+06"),
    ],
)
def test_numbers_have_three_digits_of_the_largest(score, scale, text):
    assert number(score, scale) == text
    assert number(abs(score), scale, signed=False) == text.lstrip("+-")


def test_the_scale_begins_at_zero():
    """Scores of one sign are drawn in proportion, in bars and in colours."""
    a = make_attribution(("one", "two", "three"), (39.5, 35.6, 25.4), text="one two three")
    lengths = {row.split()[0]: len(row.split()[2]) for row in str(a).splitlines() if re.search(r" \+{3}", row)}
    assert lengths == {"one": 16, "two": 14, "three": 10}
    assert "one(+++) two(+++) three(++)" in str(a)
    assert "The(---) movie(---)" in to_text(make_attribution(("The", "movie"), (-10.0, -11.0)))


def test_the_legend_explains_the_marks_that_are_drawn():
    """Numbers alone need no legend of marks, and methods side by side none of a sign that no word has."""
    positive = make_attribution(("one", "two"), (3.0, 1.0), text="one two")
    plain = text_of_blocks(comparison_blocks(Attributions([positive, positive])), color=False)
    assert "(+++) for negative   more signs" in plain
    assert "(---)" not in plain
    blocks = generation_blocks(make_generation())
    generated = text_of_blocks(blocks, color=False)
    assert "more signs" not in generated
    assert "(+++)" not in generated
    assert " red  for the token" in re.sub(
        r"\x1b\[[0-9;]*m", "", text_of_blocks(generation_blocks(make_generation()), color=True)
    )


def test_a_collection_prints_ten_and_says_how_many_more():
    many = Attributions([make_attribution()] * 200)
    shown = str(many)
    assert shown.count("prediction") == 10
    assert shown.endswith("and 190 more: slice them, or to_html(path) writes a page of all")
    assert "slice them" not in str(many[:10])


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("/data/models/mine", "mine"),
        ("./runs/3/best", "best"),
        ("../mine/", "mine"),
        ("~/models/mine", "mine"),
        ("runs/3/best", "best"),
        ("org/model", "org/model"),
        ("bert", "bert"),
        (".", "."),
    ],
)
def test_a_local_model_is_called_by_its_folder(name, shown):
    assert model_text(name) == shown


def test_terminals_of_256_colors_get_no_more():
    code = (
        "from tests.factories import make_attribution as make\n"
        "from normxlogit.render.builders.collection import blocks_of_attribution\n"
        "from normxlogit.render.terminal import text_of_blocks\n"
        "print(ascii(text_of_blocks(blocks_of_attribution(make()), color=True)))"
    )
    text = run_python(code, COLORTERM="")
    assert "48;5;" in text
    assert "48;2;" not in text


NAME = "input-norm:norm_of=word_embedding"
REPORT = f"""data set: a_b_c, texts: 3

| method | AOPC ↑ | 95% interval |
|---|---:|---|
| normxlogit | **0.442** | 0.429 to 0.456 |
| {NAME} | <u>0.310</u> | 0.301 to 0.320 |
| `x` | N/A: no head \\| no tail | |
"""


def test_numbers_line_up_and_marks_are_gone(monkeypatch):
    monkeypatch.setattr("normxlogit.render.terminal._width", lambda: 80)
    text = text_of_markdown(REPORT)
    assert text.startswith("data set: a_b_c, texts: 3\n")
    lines = text.splitlines()
    ends = [line.index("0.4") + 5 for line in lines if "normxlogit" in line]
    ends += [line.index("0.310") + 5 for line in lines if NAME in line]
    assert len(set(ends)) == 1
    assert "no head | no tail" in text
    assert not any(mark in text for mark in ("**", "<u>", "`", "---", "*0"))


@pytest.mark.parametrize("terminal_there", [True, False])
def test_a_file_gets_markdown_and_a_terminal_the_drawing(monkeypatch, capsys, terminal_there):
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal_there)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "50")
    console.write_report(REPORT)
    out = capsys.readouterr().out
    assert (out == REPORT) is not terminal_there
    if terminal_there:
        assert max(map(len, out.splitlines())) <= 50
        assert "0.442" in out
