"""Coloured text as LaTeX."""

import re

from ..results.attribution import Attribution
from ..results.units.characters import safe
from .blocks import Piece
from .charts import FAINT
from .html import COLORS, DENSEST
from .layout import layout

GREY = 0.45
"""Opacity of black in the strongest grey; black text keeps a contrast of 4.5."""

SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "`": r"\textasciigrave{}",
    **{c: f"\\{c}" for c in "{}$&#_%"},
}
"""Characters that must be escaped in LaTeX, at least in its oldest font encoding."""

LIGATURE = re.compile(r"([-',])(?=\1)")
"""The first of two characters that LaTeX joins to a ligature, such as two hyphens to a dash."""

HEADER = """% needs \\usepackage{xcolor}; scripts other than Latin need XeLaTeX or LuaLaTeX and a font that has them
{\\setlength{\\fboxsep}{1pt}\\raggedright"""


def shade(strength: float, *, greys: bool) -> str | None:
    """Return the colour of a strength on white as six hexadecimal digits, None if it is too faint."""
    if abs(strength) < FAINT:
        return None
    if greys:
        ink, opacity = [0, 0, 0], GREY * abs(strength)
    else:
        ink, opacity = [int(value) for value in COLORS[strength > 0].split(",")], DENSEST * abs(strength)
    return "".join(f"{round(255 + (value - 255) * opacity):02X}" for value in ink)


def latex_of(a: Attribution, *, words: bool | None = None, greys: bool = False) -> str:
    r"""Return the text of a result in its colours, without special tokens, as LaTeX with `\usepackage{xcolor}`."""
    laid_out, lines = layout(a, words=words), [HEADER]
    for row in range(len(laid_out.grid.rows)):
        sentence = laid_out.sentence(row)
        if sentence.caption:
            lines.append(f"\\textbf{{{_escaped(sentence.caption)}}}\\par")
        for pieces in sentence.texts:
            text = "".join(_piece(piece, greys=greys) for piece in pieces if piece.kind != "special")
            lines.append(text.strip() + "\\par")
    key_boxes = [_box(_escaped(text), sign, greys=greys) for sign, text in laid_out.legend(a).meanings()]
    return LIGATURE.sub(r"\1{}", "\n".join([*lines, f"{{\\footnotesize {' '.join(key_boxes)}\\par}}", "}"])) + "\n"


def _piece(piece: Piece, *, greys: bool) -> str:
    """Return a piece as LaTeX; each word of a coloured piece has a box of its own, so that lines can break."""
    if shade(piece.strength, greys=greys) is None:
        return _escaped(piece.text)
    parts = re.split(r"(\s+)", piece.text)
    return "".join(_box(_escaped(part), piece.strength, greys=greys) if part.strip() else part for part in parts)


def _box(content: str, strength: float, *, greys: bool) -> str:
    marked = f"\\underline{{{content}}}" if greys and strength < 0 else content
    return f"\\colorbox[HTML]{{{shade(strength, greys=greys)}}}{{\\strut {marked}}}"


def _escaped(text: str) -> str:
    return "".join(SPECIAL.get(c, c) for c in safe(text))
