"""Coloured text for papers."""

import shutil
import subprocess

import numpy as np
import pytest

from normxlogit.render.charts import FAINT
from normxlogit.render.latex import shade
from tests.factories import all_labels, make_attribution
from tests.render.test_html import luminance


@pytest.mark.parametrize("greys", [False, True])
def test_colours_follow_the_scores_and_letters_stay_readable(greys):
    def light(score):
        return luminance(bytes.fromhex(shade(score, greys=greys)))

    assert light(0.1) > light(0.5) > light(1.0)
    assert min(light(s) for s in (-1, 1)) >= 4.5 * 0.05 - 0.05, "contrast of black letters"
    assert shade(FAINT / 2, greys=greys) is None
    assert (shade(-1, greys=greys) == shade(1, greys=greys)) is greys


def test_words_have_boxes_of_their_colour():
    written = make_attribution(("good", "bad", "dull"), (4.0, -2.0, 0.0), text="good bad dull").to_latex()
    strengths = {"good": 1, "bad": -0.5}
    boxes = [rf"\colorbox[HTML]{{{shade(s, greys=False)}}}{{\strut {word}}}" for word, s in strengths.items()]
    assert f"{boxes[0]} {boxes[1]} dull" in written, "none for a score of 0"


def test_latex_escapes_what_is_not_text():
    strange = ("50%", "a_b", "#1", r"\x{}", "$&", "~^", "\x1b[31m")
    a = make_attribution(strange, range(1, 8), text=" ".join(strange))
    written = a.to_latex(words=False)
    escaped = r"50\% a\_b \#1 \textbackslash{}x\{\} \$\& \textasciitilde{}\textasciicircum{}"
    assert all(word in written for word in escaped.split())
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
