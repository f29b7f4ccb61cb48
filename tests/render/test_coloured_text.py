"""Coloured text for papers: figures and LaTeX."""

import shutil
import subprocess

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from normxlogit.render.figures.figure import PAGE
from normxlogit.render.html import FAINT
from normxlogit.render.latex import shade
from tests.factories import all_labels, make_attribution
from tests.render.test_html import luminance

A = make_attribution(("good", "bad", "dull"), (4.0, -2.0, 0.0), text="good bad dull")


def texts(figure):
    return [artist for artist in figure.get_children() if isinstance(artist, Text) and artist.get_text()]


def boxes(figure):
    return [artist for artist in figure.get_children() if isinstance(artist, Rectangle) and artist is not figure.patch]


@pytest.mark.parametrize("greys", [False, True])
def test_colours_follow_the_scores_and_letters_stay_readable(greys):
    def light(score):
        return luminance(bytes.fromhex(shade(score, greys=greys)))

    assert light(0.1) > light(0.5) > light(1.0)
    assert min(light(s) for s in (-1, 1)) >= 4.5 * 0.05 - 0.05, "contrast of black letters"
    assert shade(FAINT / 2, greys=greys) is None
    assert (shade(-1, greys=greys) == shade(1, greys=greys)) is greys


def test_words_stand_in_order_on_boxes_of_their_colour():
    figure = A.plot("text")
    words = texts(figure)
    assert [word.get_text() for word in words[:3]] == ["good", "bad", "dull"]
    assert words[0].get_position()[0] < words[1].get_position()[0] < words[2].get_position()[0]
    colors = [to_hex(box.get_facecolor())[1:].upper() for box in boxes(figure)]
    assert colors[:2] == [shade(1, greys=False), shade(-0.5, greys=False)], "none for a score of 0"
    assert [word.get_text().strip() for word in words[3:]] == ["for negative", "against negative"]


def test_long_texts_are_broken_at_spaces_and_stay_on_the_page():
    words = [f"word{i}" for i in range(120)]
    a = make_attribution(words, np.linspace(-1, 1, 120), text=" ".join(words))
    figure = a.plot("text")
    figure.draw_without_rendering()
    assert [text.get_text() for text in texts(figure)[:120]] == words
    assert len({text.get_position()[1] for text in texts(figure)}) > 8
    assert max(text.get_window_extent().x1 for text in texts(figure)) <= PAGE * figure.dpi
    assert min(text.get_window_extent().y0 for text in texts(figure)) >= 0


@pytest.mark.parametrize(
    ("words", "drawn"),
    [
        (("ראיתי", "Star", "Wars", "אתמול"), ("אתמול", "Star", "Wars", "ראיתי")),
        (("Star", "Wars", "7", "הוא", "טוב"), ("Star", "Wars", "7", "טוב", "הוא")),
        (("שנת", "1977", "היא", "New", "York", "2"), ("2", "New", "York", "היא", "1977", "שנת")),
    ],
)
def test_words_of_another_direction_stand_in_their_own_order(words, drawn):
    a = make_attribution(words, np.ones(len(words)), text=" ".join(words))
    placed = sorted(texts(a.plot("text"))[: len(words)], key=lambda text: text.get_position()[0])
    assert tuple(text.get_text() for text in placed) == drawn


def test_latex_escapes_what_is_not_text():
    strange = ("50%", "a_b", "#1", r"\x{}", "$&", "~^", "\x1b[31m")
    a = make_attribution(strange, range(1, 8), text=" ".join(strange))
    written = a.to_latex(words=False)
    for escaped in (
        r"50\%",
        r"a\_b",
        r"\#1",
        r"\textbackslash{}x\{\}",
        r"\$\&",
        r"\textasciitilde{}\textasciicircum{}",
    ):
        assert escaped in written
    assert "\x1b" not in written


STRANGE = (
    "50% a_b #1 \\x{} $& ~^ ^^41 \\\\[3pt] %% \\",
    "<b> a > b | c `back` a--b ---- ?` !` ,, '' << >> fi",
    "[UNK] *star [x] {y}\n\nline two\n   \\end{document} \\input{x} $\\frac{1}{0}$",
    "caf\u00e9 \u00fc\u00df \u00bd \u20ac \u00a9 \u201ccurly\u201d \u2013 \u2014",
    "x" * 300,
)
PREAMBLE = r"\documentclass{article}\usepackage[T1]{fontenc}\usepackage{lmodern}\usepackage{xcolor}\begin{document}"


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="no LaTeX on this machine")
@pytest.mark.parametrize("greys", [False, True])
def test_latex_compiles_to_the_letters_of_the_text(tmp_path, greys):
    pypdf = pytest.importorskip("pypdf")
    pages = []
    for text in STRANGE:
        words = text.split()
        pages.append(make_attribution(words, np.linspace(-1, 1, len(words)), text=text))
    labelled = make_attribution(("[x]", "|"), np.ones((2, 2)), text="[x] |", target=all_labels().target)
    body = "\\newpage\n".join(a.to_latex(words=False, greys=greys) for a in [*pages, labelled])
    (tmp_path / "text.tex").write_text(PREAMBLE + body + r"\end{document}", encoding="utf-8")
    command = ["pdflatex", "-no-shell-escape", "-interaction=nonstopmode", "-halt-on-error", "text.tex"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert ended.returncode == 0, ended.stdout[-2000:]
    *drawn, last = ["".join(page.extract_text().split()) for page in pypdf.PdfReader(tmp_path / "text.pdf").pages]
    for a, letters in zip(pages, drawn, strict=True):
        assert letters.replace("\u2019", "'").startswith("".join(a.text.split())[:90])
    assert last.startswith("negative[x]|positive[x]|")
