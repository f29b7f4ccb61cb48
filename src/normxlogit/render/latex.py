"""Coloured text as LaTeX, and the opaque colours that it shares with figures."""

import re
from typing import NamedTuple

from ..results.attribution import Attribution
from ..results.units.characters import safe
from ..results.units.words import Merge
from .blocks import Piece, Sentence
from .builders.text import legend_of, sentence_of
from .charts import Legend
from .describe import facts
from .html import COLORS, DENSEST, FAINT
from .layout import layout

GREY = 0.45
"""How much darker than white the strongest grey is: black letters keep a contrast of 4.5."""

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
"""Characters that LaTeX does not take as themselves, at least in its oldest font encoding."""

LIGATURE = re.compile(r"([-',])(?=\1)")
"""The first of two characters that LaTeX draws as one, such as the dash of two hyphens."""

HEADER = """% needs \\usepackage{xcolor}; scripts other than Latin need XeLaTeX or LuaLaTeX and a font that has them
{\\setlength{\\fboxsep}{1pt}\\raggedright"""


class ColouredText(NamedTuple):
    """A text in colours, once for each label and layer, and what they mean."""

    rows: tuple[Sentence, ...]
    legend: Legend


def coloured_text(a: Attribution, *, words: bool | None = None, merge: Merge | None = None) -> ColouredText:
    """Return the text of a result in its colours, without special tokens.

    Raises:
        DataError: If words are asked for and the result has none.
    """
    drawn = layout(a, words=words, merge=merge)
    rows = []
    for row in drawn.rows:
        sentence = sentence_of(drawn, row, signed=a.signed)
        texts = [(side, [p for p in pieces if p.kind != "special"]) for side, pieces in sentence.texts]
        rows.append(sentence._replace(texts=texts))
    return ColouredText(tuple(rows), legend_of(facts(a), drawn, layers=a.layers is not None))


def shade(strength: float, *, greys: bool) -> str | None:
    """Return the colour of a strength on white as six hexadecimal digits, None where nothing is coloured."""
    if abs(strength) < FAINT:
        return None
    if greys:
        ink, opacity = [0, 0, 0], GREY * abs(strength)
    else:
        ink, opacity = [int(value) for value in COLORS[strength > 0].split(",")], DENSEST * abs(strength)
    return "".join(f"{round(255 + (value - 255) * opacity):02X}" for value in ink)


def latex_of(text: ColouredText, *, greys: bool = False) -> str:
    r"""Return coloured text as LaTeX, for a document with `\usepackage{xcolor}`."""
    lines = [HEADER]
    for row in text.rows:
        if row.caption:
            lines.append(f"\\textbf{{{_escaped(row.caption)}}}\\par")
        lines += ["".join(_piece(piece, greys=greys) for piece in pieces).strip() + "\\par" for _, pieces in row.texts]
    keys = zip((1.0, -1.0), text.legend.meanings(FAINT), strict=True)
    key_boxes = [_box(_escaped(meaning), strength, greys=greys) for strength, meaning in keys if meaning]
    return LIGATURE.sub(r"\1{}", "\n".join([*lines, f"{{\\footnotesize {' '.join(key_boxes)}\\par}}", "}"])) + "\n"


def _piece(piece: Piece, *, greys: bool) -> str:
    """Return a piece; where a colour reaches over white space, each word has a box, so that lines can break."""
    if shade(piece.strength, greys=greys) is None:
        return _escaped(piece.text)
    parts = re.split(r"(\s+)", piece.text)
    return "".join(_box(_escaped(part), piece.strength, greys=greys) if part.strip() else part for part in parts)


def _box(content: str, strength: float, *, greys: bool) -> str:
    marked = f"\\underline{{{content}}}" if greys and strength < 0 else content
    return f"\\colorbox[HTML]{{{shade(strength, greys=greys)}}}{{\\strut {marked}}}"


def _escaped(text: str) -> str:
    return "".join(SPECIAL.get(c, c) for c in safe(text))
