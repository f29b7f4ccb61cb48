"""The card of deletion curves below the explanations of a text."""

from collections.abc import Sequence

import numpy as np

from ..render.blocks import Block, Card, Paragraph
from ..render.charts import Grid
from .deletion import DeletionCurve


def curves_cards(curves: Sequence[DeletionCurve]) -> list[Card]:
    """Return a card with a heat map of each deletion curve; none without curves."""
    if not curves:
        return []
    first = curves[0]
    explanation = (
        f"The {first.measured} while {first.unit} are {'masked' if first.masked else 'deleted'} one after the other. "
        "An explanation is faithful where the upper row fades at once and the lower one stays: the gap is the area "
        "between the two, about 0 for a random order."
    )
    blocks: list[Block] = [Paragraph(explanation)]
    for curve in curves:
        scores = np.array([curve.highest_first, curve.lowest_first], np.float32)  # (2, P)
        shares = [f"{share:.0%}" for share in curve.shares]
        caption = f"{curve.method}: gap {curve.gap:+.2f}; columns: the share of {curve.unit} that is left out"
        signed = bool((scores < 0).any())
        blocks.append(Grid(["highest scored first", "lowest scored first"], shares, scores, caption, signed=signed))
    return [Card(blocks, "Is it faithful?", result=False)]
