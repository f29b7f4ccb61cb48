"""Generated text token by token: in the terminal, and as a page that shows what each token rests on."""

import json
import sys
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ..results.base import FloatArray
from ..results.characters import direction, quoted, safe, visible
from ..results.generation import GenerationAttribution
from ..results.words import merged
from .cells import FAINT, KEYS, Cell
from .html import LARGEST, HeatMap, Item, environment, items_page, safely
from .layout import STEPS, Facts, facts, number
from .overview import shortened
from .terminal import DIM, legend, lines, shade, wants_color

__all__ = ["fragment", "item", "page", "to_text"]

STRONGEST = 5
"""How many tokens of the context stand beside each generated token."""


class Piece(NamedTuple):
    """A token of the stream.

    Attributes:
        text: Its characters.
        place: Its place in the sequence; None for text between tokens.
        generated: Which generated token it is; None for the prompt.
        special: Whether it is a special token.
        name: What it is called in lists.
        title: What is said when the reader points at it.
    """

    text: str
    place: int | None = None
    generated: int | None = None
    special: bool = False
    name: str = ""
    title: str = ""


class Source(NamedTuple):
    """A word of the context, or a token where words cannot be told.

    Attributes:
        name: Its text, as far as it had been written.
        score: Its score.
        strength: The score by the largest of the row, in [-1, 1].
        shown: The score as it is written.
        side: What a negative score is for.
    """

    name: str
    score: float
    strength: float
    shown: str
    side: str


class Line(NamedTuple):
    """A generated token with the part of the context that it rests on most."""

    name: str
    chance: str
    cells: list[Cell]


class Figure(NamedTuple):
    """Everything that the templates need."""

    facts: Facts
    pieces: list[Piece]
    lines: list[Line]
    matrix: HeatMap | None
    data: str
    cut: str
    direction: str
    uncoloured: str
    layers: bool = False
    keys: tuple[Cell, Cell] = KEYS


def to_text(g: GenerationAttribution, *, color: bool | None = None) -> str:
    """Draw a result as text: each generated token with the words that it rests on most.

    Args:
        g: The result.
        color: Whether to colour by ANSI codes; by default as for other results.

    Returns:
        Several lines without a line end after the last.
    """
    color = wants_color(sys.stdout) if color is None else color
    said = _facts(g)
    head = Table.grid(padding=(0, 2, 0, 0))
    head.add_column(style=DIM, no_wrap=True)
    head.add_column(overflow="fold")
    head.add_row("prompt", Text(safe(_prompt(g))))
    head.add_row("written", Text(safe(g.completion), style="bold"))
    for label, value in (("explained", said.target), ("method", said.method), ("model", said.model)):
        head.add_row(label, Text(safe(value)))
    for note in said.notes:
        head.add_row("note", Text(safe(note)))
    body = Table.grid(padding=(0, 2, 0, 0))
    for justify in ("left", "right", "left"):
        body.add_column(justify=justify, no_wrap=justify != "left" or None)  # type: ignore[arg-type]
    body.add_row(Text("token", DIM), Text("chance", DIM), Text("rests on", DIM))
    groups = _groups(g)
    for index, row in enumerate(_rows(g)):
        rests = Text(overflow="fold")
        for source in _strongest(g, index, row, groups, said):
            rests.append(safe(source.name), shade(source.strength) if color else None)
            rests.append(f" {source.shown}{safe(' ' + source.side if source.side else '')}   ", DIM)
        rests.rstrip()
        name = Text(safe(_name(g, index)), "bold" if color else "", no_wrap=True)
        body.add_row(name, Text(_chance(g, index), DIM), rests)
    parts: list[RenderableType] = [head, Text(), body, Text()]
    if color:
        parts.append(legend(said, color, _uncoloured(STEPS[0]), layers=False))
    else:
        signs = f"more than 0: {said.positive}" + (f"   less than 0: {said.negative}" if said.negative else "")
        parts.append(Text(safe(signs)))
    return lines(parts, color)


def page(g: GenerationAttribution, title: str | None = None) -> str:
    """Draw a result on a page of its own: pointing at a generated token colours what it rests on.

    The page needs nothing but a browser; without scripts it shows tables.

    Args:
        g: The result.
        title: Heading of the page.
    """
    return items_page([item(g)], title or "Generated text and what it rests on")


def item(g: GenerationAttribution) -> Item:
    """Return what a page of several results shows of one."""
    return Item("generation", shortened(_prompt(g)), _figure(g))


def fragment(g: GenerationAttribution) -> str:
    """Draw a result for a notebook: one element with its own style and no script."""
    return environment().get_template("generation.fragment.html.j2").render(figure=_figure(g))


def _figure(g: GenerationAttribution) -> Figure:
    rows, groups, said = _rows(g), _groups(g), safely(_facts(g))
    table = []
    for index, row in enumerate(rows):
        cells = []
        for source in _strongest(g, index, row, groups, said):
            kind = "" if abs(source.strength) < FAINT else "for" if source.strength > 0 else "against"
            told = f"{source.shown} {source.side}".rstrip()
            cells.append(Cell(safe(source.name), kind, abs(source.strength), told))
        table.append(Line(safe(_name(g, index)), _chance(g, index), cells))
    # The shortest digits that are the score: whoever shows fewer rounds once.
    shown = [[float(str(s)) for s in row[: g.prompt_tokens + i]] for i, row in enumerate(rows)]
    data = json.dumps({"prompt": g.prompt_tokens, "signed": g.signed, "scores": shown}, separators=(",", ":"))
    plain = "".join(t for t, special in zip(g.tokens, g.special_tokens_mask, strict=True) if not special)
    drawn = rows.size <= LARGEST
    size = f"{rows.shape[0]} x {rows.shape[1]}"
    cut = "" if drawn else f"The matrix of {size} scores is too large for a page; the saved JSON has it."
    matrix = _matrix(g, rows) if drawn else None
    return Figure(said, _pieces(g), table, matrix, data, cut, direction(plain), _uncoloured(FAINT))


def _rows(g: GenerationAttribution) -> FloatArray:
    """Return one row of finite scores for each generated token, (G, T); of several layers the last one asked for."""
    rows = g.scores if g.layers is None else g.scores[:, -1]
    return np.nan_to_num(rows, nan=0.0, posinf=0.0, neginf=0.0)


def _facts(g: GenerationAttribution) -> Facts:
    found = facts(g.for_token(0))
    names = {t.labels[0] for t in g.targets}
    itself = all(t.ids[0] == own.id for t, own in zip(g.targets, g.generated, strict=True))
    target = "each generated token" if itself else visible(names.pop()) if len(names) == 1 else "the tokens asked for"
    contrast = g.targets[0].contrast
    against = "against it" if contrast is None else f"for {visible(contrast)}"
    if contrast is not None:
        target += f" rather than {visible(contrast)}"
    if g.layers is not None:
        target += f", layer {g.layers[-1]} shown"
    positive = ("for the token" if itself else f"for {target.split(' rather')[0]}") if g.signed else "importance"
    return replace(found, target=target, positive=positive, negative=against if g.signed else None)


def _prompt(g: GenerationAttribution) -> str:
    return "".join(g.tokens[: g.prompt_tokens]).strip() if g.prompt is None else g.prompt


def _name(g: GenerationAttribution, index: int) -> str:
    return _token_name(g, g.prompt_tokens + index)


def _token_name(g: GenerationAttribution, place: int) -> str:
    """Return a token as it stands in the text; by its own name where it has no character of its own."""
    if g.text is None or g.offsets is None:
        return quoted(visible(g.tokens[place]))
    start, end = g.offsets[place]
    return quoted(visible(g.text[start:end] or g.tokens[place]))


def _groups(g: GenerationAttribution) -> list[tuple[int, ...]]:
    """Return the tokens of each word without special tokens, or single tokens where words cannot be told."""
    if g.text is None or g.offsets is None:
        return [(i,) for i, special in enumerate(g.special_tokens_mask) if not special]
    return [word.tokens for word in g.words()]


def _chance(g: GenerationAttribution, index: int) -> str:
    chance = g.generated[index].probability
    return "" if chance is None else f"{100 * chance:.1f}%"


def _scale(g: GenerationAttribution, row: FloatArray) -> float:
    """Return the largest magnitude of a row outside the special tokens, if there are others."""
    plain = ~np.array(g.special_tokens_mask, dtype=bool)
    return float(np.abs(row[plain] if (row[plain] != 0).any() else row).max(initial=0.0))


def _strongest(
    g: GenerationAttribution, index: int, row: FloatArray, groups: list[tuple[int, ...]], said: Facts
) -> list[Source]:
    """Return the words of the largest magnitude among those that a generated token has seen."""
    found = []
    for tokens in groups:
        seen = [i for i in tokens if i < g.prompt_tokens + index]
        if seen and (score := float(merged(row[seen], g.merge))):
            found.append((score, seen))
    found.sort(key=lambda pair: -abs(pair[0]))
    scale = abs(found[0][0]) if found else 1.0
    sources = []
    for score, seen in found[:STRONGEST]:
        name = _token_name(g, seen[0])
        if len(seen) > 1 and g.text is not None and g.offsets is not None:
            name = quoted(visible(g.text[min(g.offsets[i][0] for i in seen) : max(g.offsets[i][1] for i in seen)]))
        side = said.negative if said.negative and score < 0 else ""
        sources.append(Source(name, score, score / scale, number(score, scale, signed=g.signed), side))
    return sources


def _uncoloured(faintest: float) -> str:
    return f"no colour: less than {faintest:.0%} of the strongest of its row"


def _cell(g: GenerationAttribution, row: FloatArray, place: int, strength: float) -> Cell:
    name = safe(_token_name(g, place))
    score = number(float(row[place]), _scale(g, row), signed=g.signed)
    kind = "" if abs(strength) < FAINT else "for" if strength > 0 else "against"
    return Cell(name, kind, min(abs(strength), 1.0), score)


def _matrix(g: GenerationAttribution, rows: FloatArray) -> HeatMap:
    columns = [
        Cell(safe(_token_name(g, place)), "special" if special else "")
        for place, special in enumerate(g.special_tokens_mask[:-1])
    ]
    body = []
    for index, row in enumerate(rows):
        scale = _scale(g, row) or 1.0
        cells = []
        for place in range(len(columns)):
            if place >= g.prompt_tokens + index:
                cells.append(Cell(""))
                continue
            strength = float(row[place]) / scale
            cell = _cell(g, row, place, strength)
            kind = "special" if g.special_tokens_mask[place] else cell.kind
            cells.append(Cell(cell.title, kind, cell.strength, f"{safe(_name(g, index))}: {cell.text} {cell.title}"))
        body.append((safe(_name(g, index)), cells))
    return HeatMap("Rows: generated tokens; columns: what they have seen", columns, body)


def _pieces(g: GenerationAttribution) -> list[Piece]:
    """Return the stream of tokens, and the text between them."""
    pieces: list[Piece] = []
    done = 0
    for index, token in enumerate(g.tokens):
        generated = index - g.prompt_tokens if index >= g.prompt_tokens else None
        special = g.special_tokens_mask[index]
        text = token
        if g.text is not None and g.offsets is not None:
            start, end = g.offsets[index]
            if start > done:
                pieces.append(Piece(safe(g.text[done:start])))
            text = g.text[max(start, done) : end]
            done = max(done, end)
        name, title = safe(_token_name(g, index)), _title(g, index, generated)
        if not text:  # a special token, or a piece of a character that stands at another token
            text = visible(token) if special else "·"
        space = len(text) - len(text.lstrip(" ")) if text.strip() else 0  # white space before a word has no colour
        if space:
            pieces.append(Piece(text[:space]))
        pieces.append(Piece(_seen(text[space:]), index, generated, special, name, title))
    if g.text is not None and g.offsets is not None and g.text[done:].strip():
        pieces.append(Piece(safe(g.text[done:])))
    return pieces


def _seen(text: str) -> str:
    """Give line ends a sign, so that a token of nothing else can be pointed at."""
    return safe(text).replace("\n", "↵\n") if text.strip() or "\n" in text else safe(text)


def _title(g: GenerationAttribution, index: int, generated: int | None) -> str:
    name = safe(_token_name(g, index))
    if generated is None:
        return name
    best = g.predictions[generated]
    chance = _chance(g, generated)
    if best.id == g.generated[generated].id:
        return f"{name}  {chance}"
    likely = "" if best.probability is None else f" {100 * best.probability:.1f}%"
    return f"{name}  {chance}; more likely: {safe(visible(best.label))}{likely}"
