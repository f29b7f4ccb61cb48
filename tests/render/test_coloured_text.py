"""Coloured text for papers."""

import pytest

from normxlogit.render.charts import FAINT
from normxlogit.render.latex import shade
from tests.factories import make_attribution
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
