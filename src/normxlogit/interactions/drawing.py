"""The blocks of pairs: the text with arcs, what was measured of each pair, and the tables."""

import math
from dataclasses import replace
from typing import Any

from ..render.blocks import Block, Cell, Column, Fold, Header, Paragraph, Table, cell
from ..render.describe import header
from ..results.units.characters import shortened, visible
from ..results.verification import answer_text
from .arcs import Arc, ArcsBlock
from .result import LONGEST, Pair, Pairs

MOST_LISTED = 30
"""Most units in the table of single effects."""

NO_PAIR = "No tested pair is shown: joint effects are small among the answers, or measured with the other sign."


def pairs_blocks(result: Pairs, **_: Any) -> list[Block]:
    """Return the blocks of pairs, as terminals, pages and notebooks draw them."""
    blocks: list[Block] = [_header(result)]
    if not result.pairs:
        return [*blocks, Paragraph(NO_PAIR), _singles(result)]
    blocks.append(ArcsBlock(result.units, [_arc(pair) for pair in result.pairs]))
    blocks += [Paragraph(str(pair)) for pair in result.pairs[1:]]  # the header says the first
    return [*blocks, _table(result), _singles(result)]


def _header(result: Pairs) -> Header:
    """Return the answer, how far pairs explain it, and what the test of the first pair says."""
    tested = str(result.pairs[0]) if result.pairs else ""  # a header without this
    described = header([result.attribution], tested)
    target = shortened(visible(result.attribution.target.name), LONGEST)
    facts = [
        *described.facts,
        ("effects on", f"{target}: {result.quantity}"),
        ("left out", f"{result.unit}s, {result.removed_by}"),
        ("explained share", explained_text(result)),
        ("passes", str(result.passes)),
    ]
    return replace(described, facts=facts)


def explained_text(result: Pairs) -> str:
    """Return how far single and joint effects explain the answers."""
    if math.isnan(result.r2):
        return "the answers do not differ"
    of_masks = "all masks" if result.exact else "masks kept aside"
    return f"R² {result.r2:.2f} on {of_masks}"


def _arc(pair: Pair) -> Arc:
    """Return the arc between the units of a pair, with its joint effect."""
    left, right = sorted(pair.units)  # places in the text
    return Arc(left, right, effect=pair.joint, label=f"{pair.joint:+.1f}", sentence=str(pair))


def _table(result: Pairs) -> Table:
    """Return a table with a row for each pair."""
    numbers = [Column(name, numbers=True) for name in ("joint effect", "measured")]
    answers = [Column(f"without {which}") for which in ("the first", "the second", "both")]
    columns = [Column("pair"), Column("what they do"), *numbers, *answers]
    count = len(result.pairs)
    caption = f"{count} of {count + result.rejected} tested pairs act together"
    return Table(columns, [_row(result, pair) for pair in result.pairs], caption, stacked=True)


def _row(result: Pairs, pair: Pair) -> list[Cell]:
    """Return the row of a pair: units, what they do, the effect, the measured one, and the answers without units."""
    names = _names(result)
    removals = (*pair.verified.single, pair.verified.together)
    return [
        cell(" + ".join(names[unit] for unit in pair.units)),
        cell(pair.kind),
        cell(f"{pair.joint:+.2f}", pair.joint),
        cell(f"{pair.tested:+.2f}", pair.tested),
        *(cell(answer_text(removal, pair.verified)) for removal in removals),
    ]


def _names(result: Pairs) -> list[str]:
    """Return the names of the units as tables have them."""
    return [shortened(visible(name), LONGEST) for name in result.names]


def _singles(result: Pairs) -> Fold:
    """Return the table of single effects, the largest first."""
    named_effects = zip(_names(result), result.single.tolist(), strict=True)
    effects = sorted(named_effects, key=lambda named_effect: -abs(named_effect[1]))
    rows = [[cell(name), cell(f"{effect:+.2f}", effect)] for name, effect in effects[:MOST_LISTED]]
    table = Table([Column("unit"), Column("effect", numbers=True)], rows, sortable=True)
    return Fold(f"The effects of {len(rows)} single units, averaged over which others are present", [table])
